package org.perigee.spark;

import java.io.IOException;
import java.io.OutputStream;
import java.io.Serializable;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.zip.ZipOutputStream;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** How the rows of a DataFrame become the arrays x and y of an archive. */
final class Columns implements Serializable {
  private static final long serialVersionUID = 1;

  final int[] features;
  final int label;        // -1: none
  final int[] shape;      // of x; null: a flat list
  final String[] classes; // of a label of texts; null: numbers
  final boolean whole;    // the label's doubles are numbers of classes
  final boolean bytes;
  final String labelType;

  Columns(StructType schema, String[] features, String label, int[] shape, String[] classes, boolean classify) {
    List<String> names = Arrays.asList(schema.fieldNames());
    for (String name : features) require(names, name);
    this.features = Arrays.stream(features).mapToInt(names::indexOf).toArray();
    if (label != null) require(names, label);
    this.label = label == null ? -1 : names.indexOf(label);
    this.shape = shape;
    this.classes = classes;
    for (int column : this.features) Field.typeOf(schema.apply(column).dataType());
    bytes = features.length == 1 && schema.apply(this.features[0]).dataType().equals(DataTypes.BinaryType);  // bytes stay bytes
    String type = label == null || classes != null ? Field.I64 : Field.typeOf(schema.apply(this.label).dataType());
    whole = classify && type.equals(Field.F32);
    labelType = whole ? Field.I64 : type;
  }

  static void require(List<String> names, String name) {
    if (!names.contains(name))
      throw new PerigeeException("there is no column '" + name + "'; the columns are " + String.join(", ", names));
  }

  /** Fields of an archive: x, and y where there is a label. */
  Field[] open(Path folder, boolean labelled) throws IOException {
    Field x = new Field("x", bytes ? Field.U8 : Field.F32, shape, folder);
    return labelled && label >= 0 ? new Field[] {x, new Field("y", labelType, null, folder)} : new Field[] {x};
  }

  void add(Row row, Field[] fields) throws IOException {
    double[][] parts = new double[features.length][];
    int size = 0;
    for (int i = 0; i < parts.length; ++i) size += (parts[i] = numbers(row, features[i])).length;
    double[] x = new double[size];
    int at = 0;
    for (double[] part : parts) {
      System.arraycopy(part, 0, x, at, part.length);
      at += part.length;
    }
    fields[0].add(x, false);
    if (fields.length > 1) fields[1].add(labelOf(row), isSingle(row.get(label)));
  }

  private static boolean isSingle(Object value) {
    return value instanceof Number || value instanceof Boolean || value instanceof String;
  }

  private static double[] numbers(Row row, int column) {
    Object value = row.get(column);
    boolean list = value != null && !isSingle(value) && !(value instanceof byte[]) && !(value instanceof org.apache.spark.ml.linalg.Vector);
    return Field.numbers(list ? row.getList(column) : value);
  }

  private double[] labelOf(Row row) {
    if (classes != null) {
      String text = row.getString(label);
      int found = text == null ? -1 : Arrays.asList(classes).indexOf(text);
      if (found < 0) throw new PerigeeException(text == null ? "rows have no label; drop or fill them" : "the label '" + text + "' is not in train");
      return new double[] {found};
    }
    double[] values = numbers(row, label);
    for (double value : values)
      if (whole && value != Math.rint(value)) throw new PerigeeException("the label " + value + " is no class: the loss takes whole numbers");
    return values;
  }

  /** Ends the fields and gives the hash of what is in them, by which an archive is named. */
  static String finish(Field[] fields) throws IOException {
    MessageDigest digest;
    try {
      digest = MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException impossible) {  // each Java has it
      throw new IllegalStateException(impossible);
    }
    for (Field field : fields) field.finish(digest);
    StringBuilder text = new StringBuilder();
    for (byte each : Arrays.copyOf(digest.digest(), 12)) text.append(String.format(Locale.ROOT, "%02x", each));
    return text.toString();
  }

  static void write(Field[] fields, OutputStream output) throws IOException {
    ZipOutputStream archive = new ZipOutputStream(output);
    for (Field field : fields) field.write(archive);
    archive.finish();
  }
}
