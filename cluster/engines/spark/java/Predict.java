package org.perigee.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.util.TaskCompletionListener;

/** A task of Spark that predicts: hands its rows to `perigee predict` in batches, and gives them back with two columns more. */
final class Predict implements MapPartitionsFunction<Row, Row> {
  private static final long serialVersionUID = 1;
  private static final int BATCH = 4096;

  private final Broadcast<byte[]> model;
  private final String program;
  private final Columns columns;
  private final boolean named;

  Predict(Broadcast<byte[]> model, String program, Columns columns, boolean named) {
    this.model = model;
    this.program = program;
    this.columns = columns;
    this.named = named;
  }

  @Override
  public Iterator<Row> call(Iterator<Row> rows) throws IOException {
    if (!rows.hasNext()) return Collections.emptyIterator();
    Path folder = Program.privateFolder();
    TaskContext.get().addTaskCompletionListener((TaskCompletionListener) context -> Program.remove(folder));
    String file = Program.privateFile(folder, "model.safetensors", model.value()).toString();
    return new Iterator<Row>() {
      private Iterator<Row> ready = Collections.emptyIterator();

      @Override
      public boolean hasNext() {
        if (!ready.hasNext() && rows.hasNext()) ready = batch(rows, folder, file).iterator();
        return ready.hasNext();
      }

      @Override
      public Row next() {
        if (!hasNext()) throw new NoSuchElementException();
        return ready.next();
      }
    };
  }

  private List<Row> batch(Iterator<Row> rows, Path folder, String file) {
    List<Row> taken = new ArrayList<>();
    Path archive = folder.resolve("rows.npz");
    List<String> lines;
    try {
      Field[] fields = columns.open(folder, false);
      for (; taken.size() < BATCH && rows.hasNext(); columns.add(taken.get(taken.size() - 1), fields)) taken.add(rows.next());
      Columns.finish(fields);
      try (OutputStream output = Files.newOutputStream(archive)) {
        Columns.write(fields, output);
      }
      fields[0].close();
      lines = Program.run(program, "predict", file, archive.toString(), "--json", "--threads", "1");
      if (lines.size() != taken.size()) throw new PerigeeException("perigee predict: " + lines.size() + " answers to " + taken.size() + " rows");
      ObjectMapper json = new ObjectMapper();
      for (int i = 0; i < lines.size(); ++i) taken.set(i, with(taken.get(i), json.readTree(lines.get(i))));
    } catch (IOException error) {
      throw new PerigeeException("cannot hand rows to perigee predict: " + error.getMessage(), error);
    } catch (InterruptedException killed) {
      Thread.currentThread().interrupt();
      throw new PerigeeException("the task was killed", killed);
    }
    return taken;
  }

  private Row with(Row row, JsonNode answer) {
    JsonNode found = answer.has("probabilities") ? answer.get("probabilities") : answer.get("values");
    List<Double> values = new ArrayList<>();
    if (found.isValueNode()) values.add(found.asDouble());
    else for (JsonNode value : found) values.add(value.asDouble());
    Object[] cells = new Object[row.size() + 2];
    for (int i = 0; i < row.size(); ++i) cells[i] = row.get(i);
    if (named) cells[row.size()] = answer.path("label").asText();
    else cells[row.size()] = answer.has("class") ? Double.valueOf(answer.get("class").asDouble()) : values.get(0);
    cells[row.size() + 1] = values.toArray(new Double[0]);
    return RowFactory.create(cells);
  }
}
