package org.perigee.spark;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.Locale;
import org.apache.spark.sql.Row;

/** The rows of one partition as an archive of arrays, in a folder of its own that ends with it. */
final class Archive implements AutoCloseable {
  /** `name` has the hash of what is in it; without rows there is none. */
  final String name;
  final long rows;
  private final Path scratch = Program.scratchFolder();
  private final Field[] fields;

  Archive(int index, Iterator<Row> from, Columns columns) throws IOException {
    Field[] opened = {};
    try {
      opened = columns.open(scratch, true);
      while (from.hasNext()) columns.add(from.next(), opened);
      rows = opened[0].rows();
      name = rows == 0 ? "" : String.format(Locale.ROOT, "part-%05d-%s.npz", index, Columns.finish(opened));
    } catch (IOException | RuntimeException error) {
      for (Field field : opened) field.close();
      Program.remove(scratch);
      throw error;
    }
    fields = opened;
  }

  void write(OutputStream output) throws IOException {
    Columns.write(fields, output);
  }

  /** The archive as a file that is there as long as this is. */
  Path file() throws IOException {
    Path file = scratch.resolve(name);
    try (OutputStream output = Files.newOutputStream(file)) {
      write(output);
    }
    for (Field field : fields) field.close();
    return file;
  }

  @Override
  public void close() throws IOException {
    try {
      for (Field field : fields) field.close();
    } finally {
      Program.remove(scratch);
    }
  }
}
