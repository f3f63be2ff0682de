/* Predicts the rows of a table, or a picture, with a trained model, through the C ABI: example_predict runs/houses/model.safetensors new.csv
 * Of a classifier each number has the name of its class before it: it is that class's probability. */
#include <perigee.h>
#include <stdio.h>
int main(int count, char** arguments) {
  if (count != 3) return fprintf(stderr, "example_predict MODEL FILE\n"), 2;
  perigee_context* context = NULL;
  perigee_model* model = NULL;
  perigee_prediction* prediction = NULL;
  perigee_prediction_output_info output = {.size = sizeof output};
  perigee_status status = perigee_context_create(NULL, &context);
  if (!status) status = perigee_model_load(context, arguments[1], &model);
  if (!status) status = perigee_model_predict_file(model, arguments[2], NULL, &prediction);
  if (!status) status = perigee_prediction_output(prediction, 0, &output);
  if (status) fprintf(stderr, "%s%s\n", perigee_context_message(context), perigee_model_message(model));
  for (int64_t row = 0; !status && row < perigee_prediction_examples(prediction); ++row) {
    const float* values = (const float*)output.data + row * (int64_t)(output.bytes / sizeof(float));
    for (size_t i = 0; i < output.bytes / sizeof(float); ++i) {
      const char* name = perigee_prediction_class_name(prediction, 0, (int64_t)i);
      printf("%s%s%s%g", i ? " " : "", name ? name : "", name ? " " : "", values[i]);
    }
    printf("\n");
  }
  perigee_prediction_free(prediction), perigee_model_free(model), perigee_context_free(context);
  return status != 0;
}
