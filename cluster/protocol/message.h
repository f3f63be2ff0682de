// Every message of every protocol: see frame.h.
#pragma once

#include "cluster/protocol/agent_messages.h"
#include "cluster/protocol/data_messages.h"
#include "cluster/protocol/exchange_messages.h"
#include "cluster/protocol/frame.h"
#include "cluster/protocol/image_messages.h"
#include "cluster/protocol/membership_messages.h"
#include "cluster/protocol/records.h"
#include "cluster/protocol/round_messages.h"
#include "cluster/protocol/server_messages.h"
#include "cluster/protocol/standby_messages.h"
#include "cluster/protocol/trace_messages.h"

// The list that fuzzers and tests are made from.
#define PERIGEE_MESSAGES(X)      \
  PERIGEE_MEMBERSHIP_MESSAGES(X) \
  PERIGEE_ROUND_MESSAGES(X)      \
  PERIGEE_EXCHANGE_MESSAGES(X)   \
  PERIGEE_IMAGE_MESSAGES(X)      \
  PERIGEE_SERVER_MESSAGES(X)     \
  PERIGEE_AGENT_MESSAGES(X)      \
  PERIGEE_STANDBY_MESSAGES(X)    \
  PERIGEE_DATA_MESSAGES(X)       \
  PERIGEE_TRACE_MESSAGES(X)
