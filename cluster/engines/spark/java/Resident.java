package org.perigee.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/**
 * Partitions that stay with the tasks, which serve them to each other. This task tells what each is, with the hash of its rows, for the job's
 * data; Work computes its partition again and holds it. A task with other rows than the job names is refused by `perigee`.
 */
final class Resident implements Function2<Integer, Iterator<Row>, Iterator<Export.Part>> {
  private static final long serialVersionUID = 1;

  private final String program;
  private final Columns columns;

  Resident(String program, Columns columns) {
    this.program = program;
    this.columns = columns;
  }

  /** The source of a job that reads what the tasks of `rows` hold. */
  static ObjectNode describe(JavaRDD<Row> rows, String program, Columns columns, ObjectMapper json) throws IOException {
    List<ObjectNode> sources = new ArrayList<>();
    for (Export.Part part : Export.parts(rows, new Resident(program, columns))) sources.add((ObjectNode) json.readTree(part.text));
    return Export.joined(sources, json);
  }

  @Override
  public Iterator<Export.Part> call(Integer index, Iterator<Row> rows) throws Exception {
    try (Archive archive = new Archive(index, rows, columns)) {
      String text = "";
      if (archive.rows > 0) text = String.join("\n", Program.run(program, "data", "partition", name(index), source(archive, columns)));
      return Collections.singletonList(new Export.Part(index, archive.rows, text)).iterator();
    }
  }

  static String name(int index) {
    return "train/" + index;
  }

  static String source(Archive archive, Columns columns) throws IOException {
    ObjectMapper json = new ObjectMapper();
    return Export.source(archive.file().toString(), columns, json).toString();
  }

  /** Data that the coordinator serves: one archive in a folder of the driver, to which the partitions come one after the other. */
  static ObjectNode onDriver(Dataset<Row> data, String folder, Columns columns, ObjectMapper json) throws IOException {
    try (Archive archive = new Archive(0, data.toLocalIterator(), columns)) {
      if (archive.rows == 0) throw new PerigeeException("the DataFrame has no rows");
      Path made = Files.createDirectories(Paths.get(folder)).resolve(archive.name);
      Path temporary = made.resolveSibling("." + archive.name + "." + Program.parent());
      try {
        Files.copy(archive.file(), temporary, StandardCopyOption.REPLACE_EXISTING);
        Files.move(temporary, made, StandardCopyOption.ATOMIC_MOVE);
      } finally {
        Files.deleteIfExists(temporary);
      }
      return Export.source(made.toString(), columns, json);
    }
  }
}
