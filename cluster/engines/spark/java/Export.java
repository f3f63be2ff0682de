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
import java.util.Locale;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.TaskContext;
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

  /** One partition as it was written. */
  static final class Part implements Serializable {
    private static final long serialVersionUID = 1;
    final int index;
    final long rows;
    final String name;

    Part(int index, long rows, String name) {
      this.index = index;
      this.rows = rows;
      this.name = name;
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
    List<Part> parts = new ArrayList<>(data.toJavaRDD().mapPartitionsWithIndex(task, true).collect());
    parts.removeIf(part -> part.rows == 0);
    parts.sort(Comparator.comparingInt(part -> part.index));
    if (parts.isEmpty()) throw new PerigeeException("the DataFrame has no rows");
    ArrayNode sources = json.createArrayNode();
    for (Part part : parts) {
      Path path = new Path(folder, part.name);
      if (!files.exists(path))
        throw new PerigeeException("the driver does not see what the executors wrote into " + folder + ": give a shared folder of all machines");
      ObjectNode source = sources.addObject().put("type", "npz").put("file", address(path)).put("x", "x");
      if (columns.label >= 0) source.put("y", "y");
      if (columns.classes != null) {
        ArrayNode names = source.putArray("class_names");
        for (String name : columns.classes) names.add(name);
      }
    }
    if (sources.size() == 1) return (ObjectNode) sources.get(0);
    ObjectNode all = json.createObjectNode().put("type", "concat");
    all.set("sources", sources);
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
    java.nio.file.Path scratch = Program.privateFolder();
    Field[] fields = columns.open(scratch, true);
    try {
      while (rows.hasNext()) columns.add(rows.next(), fields);
      String name = "";
      if (fields[0].rows() > 0) {
        name = String.format(Locale.ROOT, "part-%05d-%s.npz", index, Columns.finish(fields));
        write(name, fields);
      }
      return Collections.singletonList(new Part(index, fields[0].rows(), name)).iterator();
    } finally {
      for (Field field : fields) field.close();
      Program.remove(scratch);
    }
  }

  private void write(String name, Field[] fields) throws IOException {
    FileSystem files = fileSystem(folder, hadoop.value());
    Path path = new Path(folder, name), temporary = new Path(folder, "." + name + "." + TaskContext.get().taskAttemptId());
    try (FSDataOutputStream output = files.create(temporary, true)) {
      Columns.write(fields, output);
      output.hsync();
    }
    // Another attempt with the same rows has written the same file.
    if (!files.rename(temporary, path)) {
      if (!files.exists(path)) throw new IOException("cannot rename " + temporary + " to " + path);
      files.delete(temporary, false);
    }
  }
}
