package org.perigee.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.util.SerializableConfiguration;

/**
 * Writes the partitions of a DataFrame as archives into a folder that all machines see, each under the hash of what is in it. A position in the
 * ledger then means the same bytes for ever, also when Spark computes a partition again in another order.
 */
final class Export implements Function2<Integer, Iterator<Row>, Iterator<Export.Part>> {
  private static final long serialVersionUID = 1;

  /** Tells of a task's partition: `text` is the name of the file that it wrote, or the source of a job that it described. */
  static final class Part implements Serializable {
    private static final long serialVersionUID = 1;
    final int index;
    final long rows;
    final String text;

    Part(int index, long rows, String text) {
      this.index = index;
      this.rows = rows;
      this.text = text;
    }
  }

  private final String folder;
  private final Columns columns;
  private final SerializableConfiguration hadoop;

  private Export(String folder, Columns columns, SerializableConfiguration hadoop) {
    this.folder = folder;
    this.columns = columns;
    this.hadoop = hadoop;
  }

  /** Writes all partitions, and returns the source of a job that reads them in the partitions' order. */
  static ObjectNode run(Dataset<Row> data, String folder, Columns columns, ObjectMapper json) throws IOException {
    Configuration hadoop = data.sparkSession().sparkContext().hadoopConfiguration();
    FileSystem files = fileSystem(folder, hadoop);
    files.mkdirs(new Path(folder));
    Export task = new Export(folder, columns, new SerializableConfiguration(hadoop));
    List<ObjectNode> sources = new ArrayList<>();
    for (Part part : parts(data.toJavaRDD(), task)) {
      Path path = new Path(folder, part.text);
      if (!files.exists(path))
        throw new PerigeeException("the driver does not see what the executors wrote into " + folder + ": give a shared folder of all machines");
      sources.add(source(address(path), columns, json));
    }
    return joined(sources, json);
  }

  /** Partitions that have rows, in their order, as the tasks tell of them. */
  static List<Part> parts(JavaRDD<Row> rows, Function2<Integer, Iterator<Row>, Iterator<Part>> task) {
    List<Part> parts = new ArrayList<>(rows.mapPartitionsWithIndex(task, true).collect());
    parts.removeIf(part -> part.rows == 0);
    parts.sort(Comparator.comparingInt(part -> part.index));
    if (parts.isEmpty()) throw new PerigeeException("the DataFrame has no rows");
    return parts;
  }

  /** The source of a job that reads this archive. */
  static ObjectNode source(String file, Columns columns, ObjectMapper json) {
    ObjectNode source = json.createObjectNode().put("type", "npz").put("file", file).put("x", "x");
    if (columns.label >= 0) source.put("y", "y");
    if (columns.classes != null) {
      ArrayNode names = source.putArray("class_names");
      for (String name : columns.classes) names.add(name);
    }
    return source;
  }

  static ObjectNode joined(List<ObjectNode> sources, ObjectMapper json) {
    if (sources.size() == 1) return sources.get(0);
    ObjectNode all = json.createObjectNode().put("type", "concat");
    all.putArray("sources").addAll(sources);
    return all;
  }

  /** The folder as the program `perigee` names it. */
  private static String address(Path path) {
    String scheme = path.toUri().getScheme();
    if (scheme == null || scheme.equals("file")) return path.toUri().getPath();
    return path.toString().replaceFirst("^s3[an]:", "s3:");
  }

  /** Without the checksums that Hadoop would put beside the files of a local folder. */
  private static FileSystem fileSystem(String folder, Configuration hadoop) throws IOException {
    FileSystem found = new Path(folder).getFileSystem(hadoop);
    return found instanceof LocalFileSystem ? ((LocalFileSystem) found).getRawFileSystem() : found;
  }

  @Override
  public Iterator<Part> call(Integer index, Iterator<Row> rows) throws Exception {
    try (Archive archive = new Archive(index, rows, columns)) {
      if (archive.rows > 0) write(archive);
      return Collections.singletonList(new Part(index, archive.rows, archive.name)).iterator();
    }
  }

  private void write(Archive archive) throws IOException {
    FileSystem files = fileSystem(folder, hadoop.value());
    Path path = new Path(folder, archive.name), temporary = new Path(folder, "." + archive.name + "." + TaskContext.get().taskAttemptId());
    try (FSDataOutputStream output = files.create(temporary, true)) {
      archive.write(output);
      output.hsync();
    }
    // Another attempt with the same rows has written the same file.
    if (!files.rename(temporary, path)) {
      if (!files.exists(path)) throw new IOException("cannot rename " + temporary + " to " + path);
      files.delete(temporary, false);
    }
  }
}
