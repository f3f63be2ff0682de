#include "repl/commands/submit/templates.h"

namespace perigee {

const char* const kSlurmTemplate = R"(#!/bin/sh
#SBATCH --job-name=@NAME@
#SBATCH --nodes=@N@
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=@CPUS@
#SBATCH --mem=@MEMORY_MB@M
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=USR1@120
# Two minutes before its time is up the run writes a checkpoint and ends; the job is queued again and goes on from there.
# So it does when a node fails. The run folder is runs/NAME-slurm-JOBID below the folder in which sbatch is called.

srun --cpus-per-task=@CPUS@ @PROGRAM@ train '@SCRIPT@' --log plain
status=$?
if [ "$status" -eq 138 ]; then  # 128 + SIGUSR1
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
)";

const char* const kKubernetesTemplate =
    R"(# @N@ pods train one job: kubectl apply -f THIS.yaml; kubectl logs -f -l batch.kubernetes.io/job-completion-index=0
# It holds a secret that was made for this job alone: whoever reads it may join the run. Do not keep it in a repository.
# The image, where perigee_*.deb is what `./perigee package` makes:
#   FROM debian:12-slim
#   COPY perigee_*.deb /tmp/
#   RUN apt-get update && apt-get install -y /tmp/perigee_*.deb && rm -rf /var/lib/apt/lists/* /tmp/perigee_*.deb
apiVersion: v1
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
apiVersion: v1
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
apiVersion: batch/v1
kind: Job
metadata:
  name: @NAME@
spec:
  completionMode: Indexed
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
          command: [sh, -c, "install -m 0600 /etc/perigee/cluster.key /tmp/cluster.key && exec perigee train /job/@FILE@ --secret /tmp/cluster.key --log json"]
          env:
            - name: PERIGEE_SIZE
              value: "@N@"
            - name: PERIGEE_COORDINATOR
              value: @NAME@-0.@NAME@:7700
            - name: PERIGEE_JOB
              valueFrom:
                fieldRef:
                  fieldPath: metadata.labels['batch.kubernetes.io/controller-uid']
          ports:
            - containerPort: 7700
          resources:
            requests:
              cpu: "@CPUS@"
              memory: @MEMORY_MB@Mi
            limits:
              cpu: "@CPUS@"
              memory: @MEMORY_MB@Mi
          volumeMounts:
            - name: job
              mountPath: /job
            - name: key
              mountPath: /etc/perigee
              readOnly: true
            - name: work
              mountPath: /work
      volumes:
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

const char* const kAwsBatchTemplate =
    R"(# AWS Batch, multi-node parallel: aws cloudformation deploy --template-file THIS.yaml --stack-name @NAME@ --parameter-overrides ...
# then aws batch submit-job --job-name @NAME@ --job-queue QUEUE --job-definition @NAME@
AWSTemplateFormatVersion: "2010-09-09"
Description: Perigee trains @SCRIPT@ on @N@ nodes
Parameters:
  Image:
    Type: String
    Default: @IMAGE@
    Description: has Perigee and the script, in its working directory
  KeySecretArn:
    Type: String
    Description: "of a secret of Secrets Manager that holds what `perigee secret new` prints"
  ExecutionRoleArn:
    Type: String
    Description: may read that secret
  JobRoleArn:
    Type: String
    Description: what the job itself may do, such as reading its data
Resources:
  JobDefinition:
    Type: AWS::Batch::JobDefinition
    Properties:
      JobDefinitionName: @NAME@
      Type: multinode
      RetryStrategy:
        Attempts: 3
        EvaluateOnExit:
          - OnExitCode: "2"
            Action: EXIT
          - OnExitCode: "3"
            Action: EXIT
          - OnExitCode: "4"
            Action: EXIT
          - OnExitCode: "6"
            Action: EXIT
          - OnExitCode: "*"
            Action: RETRY
      NodeProperties:
        MainNode: 0
        NumNodes: @N@
        NodeRangeProperties:
          - TargetNodes: "0:"
            Container:
              Image: !Ref Image
              Command:
                - sh
                - -c
                - umask 077 && printf '%s\n' "$PERIGEE_KEY" > /tmp/cluster.key && unset PERIGEE_KEY && exec perigee train '@SCRIPT@' --secret /tmp/cluster.key --log json
              ExecutionRoleArn: !Ref ExecutionRoleArn
              JobRoleArn: !Ref JobRoleArn
              Secrets:
                - Name: PERIGEE_KEY
                  ValueFrom: !Ref KeySecretArn
              ResourceRequirements:
                - Type: VCPU
                  Value: "@CPUS@"
                - Type: MEMORY
                  Value: "@MEMORY_MB@"
)";

const char* const kSageMakerTemplate = R"({
  "TrainingJobName": "@NAME@",
  "RoleArn": "arn:aws:iam::ACCOUNT:role/ROLE",
  "AlgorithmSpecification": {
    "TrainingImage": "@IMAGE@",
    "TrainingInputMode": "File",
    "ContainerEntrypoint": ["sh", "-c", "cd /opt/ml/checkpoints && install -m 0600 /opt/ml/input/data/key/cluster.key /tmp/cluster.key && perigee train '@SCRIPT@' --secret /tmp/cluster.key --log plain || { status=$?; echo \"perigee train: exit code $status\" > /opt/ml/output/failure; exit $status; }; cp runs/*/model.safetensors /opt/ml/model/ 2>/dev/null || true"]
  },
  "InputDataConfig": [
    {
      "ChannelName": "key",
      "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://BUCKET/PREFIX/cluster.key", "S3DataDistributionType": "FullyReplicated"}}
    }
  ],
  "OutputDataConfig": {"S3OutputPath": "s3://BUCKET/PREFIX/output"},
  "CheckpointConfig": {"S3Uri": "s3://BUCKET/PREFIX/checkpoints", "LocalPath": "/opt/ml/checkpoints"},
  "ResourceConfig": {"InstanceCount": @N@, "InstanceType": "ml.m5.xlarge", "VolumeSizeInGB": 30},
  "StoppingCondition": {"MaxRuntimeInSeconds": 86400}
}
)";

const char* const kSkyPilotTemplate =
    R"(# perigee secret new > cluster.key; sky launch THIS.yaml, or sky jobs launch THIS.yaml, in the folder that holds both and the script
name: @NAME@
num_nodes: @N@
resources:
  cpus: @CPUS@+
  memory: @MEMORY_GB@+
  use_spot: false
workdir: .
setup: |
  sudo apt-get install -y ./perigee_*.deb
run: |
  chmod 600 cluster.key
  perigee train '@SCRIPT@' --secret cluster.key --log plain
)";

}  // namespace perigee
