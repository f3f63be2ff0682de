package org.perigee.spark;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.UUID;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.ml.Model;
import org.apache.spark.ml.param.IntArrayParam;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.ml.param.StringArrayParam;
import org.apache.spark.ml.util.DefaultParamsReader;
import org.apache.spark.ml.util.DefaultParamsWriter;
import org.apache.spark.ml.util.MLReader;
import org.apache.spark.ml.util.MLWritable;
import org.apache.spark.ml.util.MLWriter;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * A trained network that predicts over a DataFrame: two more columns, the prediction (the number of the class or the value; the class's name where
 * the label was a text) and, as NAME_values, all probabilities or values. Executors ask `perigee predict`, so the numbers are those of the program.
 */
public final class PerigeeModel extends Model<PerigeeModel> implements MLWritable {
  private static final long serialVersionUID = 1;
  private static final String FILE = "model.safetensors";

  private final String uid;
  private final StringArrayParam featuresCols, classes;
  private final IntArrayParam shape;
  private final Param<String> predictionCol, program;
  private byte[] content;
  private transient Run run;

  public PerigeeModel(String uid) {
    this.uid = uid;
    featuresCols = new StringArrayParam(this, "featuresCols", "columns with the inputs: numbers, arrays, vectors or bytes");
    shape = new IntArrayParam(this, "shape", "of one example; empty: a flat list");
    classes = new StringArrayParam(this, "classes", "names of the classes; empty: classes are numbers, or there are none");
    predictionCol = new Param<>(this, "predictionCol", "the column for the prediction; NAME_values has all values");
    program = new Param<>(this, "program", "the program perigee on every machine");
    setDefault(featuresCols, new String[] {"features"});
    setDefault(shape, new int[0]);
    setDefault(classes, new String[0]);
    setDefault(predictionCol, "prediction");
    setDefault(program, "perigee");
  }

  /** Takes the model that a run left. */
  PerigeeModel(Run run) throws IOException {
    this("perigee_" + UUID.randomUUID());
    content = Files.readAllBytes(Paths.get(run.folder, FILE));
    this.run = run;
    set(featuresCols, run.features);
    if (run.shape != null) set(shape, run.shape);
    if (run.classes != null) set(classes, run.classes);
    set(program, run.program);
  }

  @Override
  public String uid() {
    return uid;
  }

  public StringArrayParam featuresCols() {
    return featuresCols;
  }

  public IntArrayParam shape() {
    return shape;
  }

  public StringArrayParam classes() {
    return classes;
  }

  public Param<String> predictionCol() {
    return predictionCol;
  }

  public Param<String> program() {
    return program;
  }

  public PerigeeModel setFeaturesCol(String name) {
    set(featuresCols, new String[] {name});
    return this;
  }

  public PerigeeModel setFeaturesCols(String[] names) {
    set(featuresCols, names);
    return this;
  }

  public PerigeeModel setPredictionCol(String name) {
    set(predictionCol, name);
    return this;
  }

  public PerigeeModel setProgram(String path) {
    set(program, path);
    return this;
  }

  /** The run that trained it: folder, last event, attempts. null of a model that was loaded. */
  public Run run() {
    return run;
  }

  @Override
  public StructType transformSchema(StructType schema) {
    for (String name : getOrDefault(featuresCols)) Columns.require(Arrays.asList(schema.fieldNames()), name);
    return withPrediction(schema, getOrDefault(predictionCol), getOrDefault(classes).length > 0);
  }

  static StructType withPrediction(StructType schema, String name, boolean named) {
    return schema.add(name, named ? DataTypes.StringType : DataTypes.DoubleType)
        .add(name + "_values", DataTypes.createArrayType(DataTypes.DoubleType));
  }

  @Override
  public Dataset<Row> transform(Dataset<?> data) {
    StructType schema = transformSchema(data.schema());
    int[] lengths = getOrDefault(shape);
    Columns columns = new Columns(data.schema(), getOrDefault(featuresCols), null, lengths.length > 0 ? lengths : null, null, false);
    Broadcast<byte[]> sent = JavaSparkContext.fromSparkContext(data.sparkSession().sparkContext()).broadcast(content);
    boolean named = getOrDefault(classes).length > 0;
    return data.toDF().mapPartitions(new Predict(sent, getOrDefault(program), columns, named), Encoders.row(schema));
  }

  @Override
  public PerigeeModel copy(ParamMap extra) {
    PerigeeModel copied = new PerigeeModel(uid);
    copied.content = content;
    copied.run = run;
    return copyValues(copied, extra).setParent(parent());
  }

  @Override
  public MLWriter write() {
    return new Writer(this);
  }

  public static MLReader<PerigeeModel> read() {
    return new Reader();
  }

  public static PerigeeModel load(String path) {
    return read().load(path);
  }

  private static FileSystem files(String path) throws IOException {
    return new Path(path).getFileSystem(org.apache.spark.sql.SparkSession.active().sparkContext().hadoopConfiguration());
  }

  /** The parameters as Spark ML writes them, and the model file beside them. */
  private static final class Writer extends MLWriter {
    private final PerigeeModel model;

    Writer(PerigeeModel model) {
      this.model = model;
    }

    @Override
    public void saveImpl(String path) {
      new DefaultParamsWriter(model).saveImpl(path);
      try (OutputStream output = files(path).create(new Path(path, FILE))) {
        output.write(model.content);
      } catch (IOException error) {
        throw new PerigeeException("cannot write " + path + "/" + FILE + ": " + error.getMessage(), error);
      }
    }
  }

  private static final class Reader extends MLReader<PerigeeModel> {
    @Override
    public PerigeeModel load(String path) {
      PerigeeModel model = new DefaultParamsReader<PerigeeModel>().load(path);
      try (InputStream input = files(path).open(new Path(path, FILE))) {
        model.content = input.readAllBytes();
      } catch (IOException error) {
        throw new PerigeeException("cannot read " + path + "/" + FILE + ": " + error.getMessage(), error);
      }
      return model;
    }
  }
}
