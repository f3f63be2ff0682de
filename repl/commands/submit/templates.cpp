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
