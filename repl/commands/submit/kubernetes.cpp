// Manifests of Kubernetes. The three kinds share what a pod holds: @@ENV:8@ puts that text there, indented by eight.
#include <algorithm>
#include <string_view>
#include <utility>

#include "repl/commands/submit/templates.h"

namespace perigee {
namespace {

constexpr std::string_view kHead =
    R"(# @N@ pods train one job: kubectl apply -f THIS.yaml; kubectl logs -f -l batch.kubernetes.io/job-completion-index=0
)";
constexpr std::string_view kImage =
    R"(# It holds a secret that was made for this job alone: whoever reads it may join the run. Do not keep it in a repository.
# The image, where perigee_*.deb is what `./perigee package` makes:
#   FROM debian:12-slim
#   COPY perigee_*.deb /tmp/
#   RUN apt-get update && apt-get install -y /tmp/perigee_*.deb && rm -rf /var/lib/apt/lists/* /tmp/perigee_*.deb
)";

constexpr std::string_view kService = R"(apiVersion: v1
kind: Service
metadata:
  name: @NAME@
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    batch.kubernetes.io/job-name: @NAME@
  ports:
    - name: run
      port: 7700
---
)";

constexpr std::string_view kObjects = R"(apiVersion: v1
kind: Secret
metadata:
  name: @NAME@
stringData:
  cluster.key: "@KEY@"
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: @NAME@
data:
  @FILE@: |2
@TEXT@
---
# The run folder. Only pod 0 writes it; it has to find it on whatever node it comes back.
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: @NAME@
spec:
  accessModes: [ReadWriteMany]
  resources:
    requests:
      storage: 10Gi
---
)";

constexpr std::string_view kJob = R"(apiVersion: batch/v1
kind: Job
metadata:
  name: @NAME@
spec:
@@SPEC:2@
)";

constexpr std::string_view kJobSet = R"(apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: @NAME@
spec:
  network:
    enableDNSHostnames: true
    subdomain: @NAME@
    publishNotReadyAddresses: true
  replicatedJobs:
    - name: workers
      replicas: 1
      template:
        spec:
@@SPEC:10@
)";

constexpr std::string_view kTrainJob = R"(apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: @NAME@
spec:
  runtimeRef:
    name: torch-distributed
  trainer:
    image: @IMAGE@
    numNodes: @N@
    numProcPerNode: 1
    # A mounted secret is never its reader's alone, which Perigee asks of it: so a copy.
    command: [sh, -c, "cd /work && @@COMMAND:0@"]
@@ENV:4@
    resourcesPerNode:
      requests:
        cpu: "@CPUS@"
        memory: @MEMORY_MB@Mi
      limits:
        cpu: "@CPUS@"
        memory: @MEMORY_MB@Mi
  runtimePatches:
    - manager: perigee/submit
      trainingRuntimeSpec:
        template:
          spec:
            replicatedJobs:
              - name: node
                template:
                  spec:
                    template:
                      spec:
                        terminationGracePeriodSeconds: 60  # SIGTERM: pod 0 writes a checkpoint and ends with 143
                        securityContext:
                          runAsNonRoot: true
                          runAsUser: 1000
                          fsGroup: 1000
                          seccompProfile:
                            type: RuntimeDefault
                        containers:
                          - name: node
@@MOUNTS:28@
@@VOLUMES:24@
)";

constexpr std::string_view kSpec = R"(completionMode: Indexed
completions: @N@
parallelism: @N@
backoffLimitPerIndex: 20
podReplacementPolicy: Failed
podFailurePolicy:
  rules:
    - action: Ignore  # a node is drained, or taken away
      onPodConditions:
        - type: DisruptionTarget
          status: "True"
    - action: FailJob  # usage, data, model or script, authentication: the next try would end in the same way
      onExitCodes:
        containerName: perigee
        operator: In
        values: [2, 3, 4, 6]
successPolicy:
  rules:
    - succeededIndexes: "0"
template:
  spec:
    subdomain: @NAME@
    restartPolicy: Never
    terminationGracePeriodSeconds: 60  # SIGTERM: pod 0 writes a checkpoint and ends with 143; it goes on from there
    securityContext:
      runAsNonRoot: true
      runAsUser: 1000
      fsGroup: 1000
      seccompProfile:
        type: RuntimeDefault
    containers:
      - name: perigee
        image: @IMAGE@
        workingDir: /work
        # A mounted secret is never its reader's alone, which Perigee asks of it: so a copy.
        command: [sh, -c, "@@COMMAND:0@"]
@@ENV:8@
        ports:
          - containerPort: 7700
        resources:
          requests:
            cpu: "@CPUS@"
            memory: @MEMORY_MB@Mi
          limits:
            cpu: "@CPUS@"
            memory: @MEMORY_MB@Mi
@@MOUNTS:8@
@@VOLUMES:4@
)";

constexpr std::string_view kCommand =
    "install -m 0600 /etc/perigee/cluster.key /tmp/cluster.key && exec perigee train /job/@FILE@ --secret /tmp/cluster.key --log json";

constexpr std::string_view kEnv = R"(env:
  - name: PERIGEE_SIZE
    value: "@N@"
  - name: PERIGEE_COORDINATOR
    value: @FIRST@:7700
  - name: PERIGEE_JOB
    valueFrom:
      fieldRef:
        fieldPath: metadata.labels['batch.kubernetes.io/controller-uid']
)";

constexpr std::string_view kMounts = R"(volumeMounts:
  - name: job
    mountPath: /job
  - name: key
    mountPath: /etc/perigee
    readOnly: true
  - name: work
    mountPath: /work
)";

constexpr std::string_view kVolumes = R"(volumes:
  - name: job
    configMap:
      name: @NAME@
  - name: key
    secret:
      secretName: @NAME@
      defaultMode: 0400
  - name: work
    persistentVolumeClaim:
      claimName: @NAME@
)";

std::string kubernetes_indented(std::string_view text, size_t by) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    out.append(by, ' ').append(text.substr(at, end - at));
    at = end;
  }
  return out;
}

// `text` with the pieces that it names, whose own pieces follow in turn.
std::string composed(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> pieces[] = {
      {"@@SPEC:", kSpec}, {"@@COMMAND:", kCommand}, {"@@ENV:", kEnv}, {"@@MOUNTS:", kMounts}, {"@@VOLUMES:", kVolumes}};
  for (const auto& [mark, piece] : pieces)
    for (size_t at; (at = text.find(mark)) != std::string::npos;) {
      const size_t number = at + mark.size(), end = text.find('@', number);
      const size_t by = std::stoul(text.substr(number, end - number));
      // A mark in a line of its own takes over the indent of a piece around it; one inside a line is replaced where it stands.
      const size_t line = text.rfind('\n', at) + 1;
      const bool own = text.find_first_not_of(' ', line) == at;
      if (own) text.replace(line, end + 2 - line, kubernetes_indented(piece, by + at - line));
      else text.replace(at, end + 1 - at, piece);
    }
  return text;
}

// `needs` says in a comment what a cluster must have; JobSet makes the Service itself.
std::string manifests(std::string_view needs, std::string_view service, std::string_view job, std::string_view first) {
  std::string text(kHead);
  ((text += needs) += kImage) += service;
  text += kObjects;
  text += composed(std::string(job));
  constexpr std::string_view kMark = "@FIRST@";
  return text.replace(text.find(kMark), kMark.size(), first);
}

}  // namespace

std::string kubernetes_template() { return manifests("", kService, kJob, "@NAME@-0.@NAME@"); }
std::string jobset_template() {
  return manifests("# The cluster needs JobSet (jobset.sigs.k8s.io).\n", "", kJobSet, "@NAME@-workers-0-0.@NAME@");
}
std::string trainjob_template() {
  return manifests("# The cluster needs Kubeflow Trainer 2.2 or later, and its runtime torch-distributed.\n", "", kTrainJob,
                   "@NAME@-node-0-0.@NAME@");
}

}  // namespace perigee
