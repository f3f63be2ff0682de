/* Learns y = 3 a - 2 b from numbers in this program's memory, through the C ABI. */
#include <perigee.h>
#include <stdio.h>
static const char job_text[] =
    "{\"network\": {\"type\": \"sequential\", \"layers\": [{\"type\": \"dense\", \"out\": 1, \"name\": \"line\"}]},"
    " \"loss\": \"mse\", \"optimizer\": {\"type\": \"sgd\", \"lr\": 0.1}, \"data\": {\"batch\": 10}, \"epochs\": 50, \"seed\": 1}";
int main(void) {
  float x[100][2], y[100], weight[2] = {0, 0};
  for (int i = 0; i < 100; ++i)
    x[i][0] = i % 10 / 5.f - 1, x[i][1] = i / 10 / 5.f - 1, y[i] = 3 * x[i][0] - 2 * x[i][1];
  perigee_field fields[2] = {{.size = sizeof fields[0], .name = "x", .rank = 1, .shape = {2}, .data = x},
                             {.size = sizeof fields[0], .name = "y", .rank = 1, .shape = {1}, .data = y}};
  perigee_context* context = NULL;
  perigee_source* source = NULL;
  perigee_job* job = NULL;
  perigee_trainer* trainer = NULL;
  perigee_model* model = NULL;
  perigee_status status = perigee_context_create(NULL, &context);
  if (!status) status = perigee_source_from_arrays(context, 100, fields, 2, NULL, NULL, &source);
  if (!status) status = perigee_job_parse(context, job_text, sizeof job_text - 1, PERIGEE_JSON, "example", NULL, &job);
  if (!status) status = perigee_job_bind(job, "train", source);
  if (!status) status = perigee_trainer_create(job, NULL, &trainer);
  if (!status) status = perigee_trainer_run(trainer, NULL);
  if (!status) status = perigee_trainer_model(trainer, &model);
  if (!status) status = perigee_model_read(model, "line.weight", weight, sizeof weight);
  if (status) printf("%s%s%s\n", perigee_context_message(context), perigee_job_message(job), perigee_trainer_message(trainer));
  printf("perigee %s: y = %.3f a + %.3f b\n", perigee_version(), weight[0], weight[1]);
  perigee_model_free(model), perigee_trainer_free(trainer), perigee_job_free(job), perigee_source_free(source), perigee_context_free(context);
  return status || weight[0] < 2.9 || weight[0] > 3.1;
}
