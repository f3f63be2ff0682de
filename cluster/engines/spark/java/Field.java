package org.perigee.spark;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.LocalDateTime;
import java.util.List;
import java.util.zip.CRC32;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.apache.spark.ml.linalg.Vector;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;

/** One array of a NumPy archive while its rows come. They lie in a file, since a partition may be larger than the memory. */
final class Field implements AutoCloseable {
  static final String F32 = "<f4", U8 = "|u1", I64 = "<i8";

  private final String name, type;
  private final int[] shape;  // of one row; null: as long as the first row
  private final Path file;
  private final OutputStream output;
  private ByteBuffer row = ByteBuffer.allocate(0);
  private long rows;
  private int width = -1;  // values in a row; 0: a single one, without an axis of its own

  Field(String name, String type, int[] shape, Path folder) throws IOException {
    this.name = name;
    this.type = type;
    this.shape = shape;
    file = folder.resolve(name + ".raw");
    output = new BufferedOutputStream(Files.newOutputStream(file), 1 << 16);
  }

  /** NumPy's name for the values of a column; doubles become floats, as everywhere in Perigee. */
  static String typeOf(DataType column) {
    if (column instanceof ArrayType) return typeOf(((ArrayType) column).elementType());
    if (column.equals(DataTypes.BinaryType) || column.equals(DataTypes.BooleanType)) return U8;
    if (column.equals(DataTypes.ByteType)) return "|i1";
    if (column.equals(DataTypes.ShortType)) return "<i2";
    if (column.equals(DataTypes.IntegerType)) return "<i4";
    if (column.equals(DataTypes.LongType)) return I64;
    boolean number = column.equals(DataTypes.FloatType) || column.equals(DataTypes.DoubleType) || column instanceof DecimalType;
    if (number || column.typeName().equals("vector")) return F32;
    throw new PerigeeException("a column is " + column.simpleString() + ": expected numbers, an array or a vector of them, or bytes");
  }

  /** A value of a row as numbers: one, or all of an array, a vector or bytes. */
  static double[] numbers(Object value) {
    if (value == null) throw new PerigeeException("rows have no value; drop or fill them");
    if (value instanceof Number) return new double[] {((Number) value).doubleValue()};
    if (value instanceof Boolean) return new double[] {(Boolean) value ? 1 : 0};
    if (value instanceof Vector) return ((Vector) value).toArray();
    if (value instanceof byte[]) {
      byte[] bytes = (byte[]) value;
      double[] found = new double[bytes.length];
      for (int i = 0; i < bytes.length; ++i) found[i] = bytes[i] & 0xff;
      return found;
    }
    List<?> list = (List<?>) value;
    double[] found = new double[list.size()];
    for (int i = 0; i < found.length; ++i) found[i] = numbers(list.get(i))[0];
    return found;
  }

  /** Adds a row. `single`: it is one number, not a list of one. */
  void add(double[] values, boolean single) throws IOException {
    int seen = single ? 0 : values.length;
    if (width < 0) begin(seen);
    if (width != seen) throw new PerigeeException("the rows have lists of different lengths: " + width + " and " + seen);
    row.clear();
    for (double value : values) put(value);
    output.write(row.array(), 0, row.position());
    ++rows;
  }

  private void begin(int values) {
    long expected = 1;
    if (shape != null) for (int length : shape) expected *= length;
    if (shape != null && expected != values)
      throw new PerigeeException("a row has " + values + " numbers; the shape asks for " + expected);
    width = values;
    row = ByteBuffer.allocate(8 * Math.max(1, values)).order(ByteOrder.LITTLE_ENDIAN);
  }

  private void put(double value) {
    if (type.equals(F32)) row.putFloat((float) value);
    else if (type.equals(I64)) row.putLong((long) value);
    else if (type.equals("<i4")) row.putInt((int) value);
    else if (type.equals("<i2")) row.putShort((short) value);
    else row.put((byte) value);
  }

  long rows() {
    return rows;
  }

  /** As Python writes it: (7,), (7, 8). */
  private String shapeText() {
    StringBuilder text = new StringBuilder("(" + rows);
    if (shape != null) for (int length : shape) text.append(", ").append(length);
    else if (width > 0) text.append(", ").append(width);
    return text.append(shape == null && width == 0 ? ",)" : ")").toString();
  }

  private interface Block {
    void take(byte[] bytes, int size) throws IOException;
  }

  private void read(Block block) throws IOException {
    byte[] buffer = new byte[1 << 16];
    try (InputStream input = Files.newInputStream(file)) {
      for (int size = input.read(buffer); size > 0; size = input.read(buffer)) block.take(buffer, size);
    }
  }

  /** Ends the rows, and adds what they are to the hash that names the archive. */
  void finish(MessageDigest digest) throws IOException {
    output.close();
    digest.update(type.getBytes(StandardCharsets.US_ASCII));
    digest.update(shapeText().getBytes(StandardCharsets.US_ASCII));
    read((bytes, size) -> digest.update(bytes, 0, size));
  }

  /** Writes a finished field as a file of the archive: stored, not packed, so that it can be mapped. */
  void write(ZipOutputStream archive) throws IOException {
    String text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shapeText() + ", }";
    int padded = (10 + text.length() + 1 + 63) / 64 * 64;  // NumPy's format 1.0: the data begin at a multiple of 64
    ByteBuffer header = ByteBuffer.allocate(padded).order(ByteOrder.LITTLE_ENDIAN);
    header.put((byte) 0x93).put("NUMPY".getBytes(StandardCharsets.US_ASCII)).put((byte) 1).put((byte) 0).putShort((short) (padded - 10));
    header.put(text.getBytes(StandardCharsets.US_ASCII));
    while (header.remaining() > 1) header.put((byte) ' ');
    header.put((byte) '\n');
    CRC32 checksum = new CRC32();
    checksum.update(header.array());
    read((bytes, size) -> checksum.update(bytes, 0, size));
    ZipEntry entry = new ZipEntry(name + ".npy");
    entry.setMethod(ZipEntry.STORED);
    entry.setTimeLocal(LocalDateTime.of(1980, 1, 1, 0, 0));
    entry.setSize(padded + Files.size(file));
    entry.setCrc(checksum.getValue());
    archive.putNextEntry(entry);
    archive.write(header.array());
    read((bytes, size) -> archive.write(bytes, 0, size));
    archive.closeEntry();
  }

  @Override
  public void close() throws IOException {
    output.close();
    Files.deleteIfExists(file);
  }
}
