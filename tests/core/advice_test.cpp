// The advice of an error, in the words of a command, of a script and of a program.
#include "src/core/advice.h"

#include <gtest/gtest.h>

namespace perigee {
namespace {

struct Said {
  const char *command, *script, *library;
};

TEST(Advice, IsInTheWordsOfWhoIsTold) {
  const Said all[] = {
      {"stop the run, and resume it with --set loss=VALUE", "stop the run, and resume it with set = { \"loss=VALUE\" }",
       "stop the run, and resume it with loss=VALUE in the job"},
      {"continue it with --resume runs/a-1, or choose another folder", "continue it with resume = \"runs/a-1\", or choose another folder",
       "continue it with resume = \"runs/a-1\", or choose another folder"},
      {"leave out --resume, and choose another with --out", "leave out resume, and choose another with out",
       "leave out resume, and choose another with folder"},
      {"`perigee train --resume runs/a` goes on with it", "pg.start(\"runs/a\", { resume = \"runs/a\" }) goes on with it",
       "a run with resume = \"runs/a\" goes on with it"},
      {"`perigee train --resume` goes on", "pg.start(FOLDER, { resume = FOLDER }) goes on", "a run with resume = FOLDER goes on"},
      {"try --batch 64", "try data.batch = 64", "try data.batch = 64 in the job"},
      {"as in --device cuda:0,1", "as in device = \"cuda:0,1\"", "as in device = \"cuda:0,1\""},
      {"without --workers, --agents or --listen", "without workers, agents or listen", "without workers, agents or listen"},
  };
  for (const Said& said : all) {
    EXPECT_EQ(advice_for(Voice::command, said.command), said.command);
    EXPECT_EQ(advice_for(Voice::script, said.command), said.script);
    EXPECT_EQ(advice_for(Voice::library, said.command), said.library);
  }
}

TEST(Advice, LeavesOtherTextAsItIs) {
  for (const char* text : {"", "--", "a -- b", "got '--set x'", "3 --4", "`perigee doctor` says more", "a--b", "-- Set",
                           "give `perigee train --secret FILE` one"})
    for (const Voice voice : {Voice::script, Voice::library}) EXPECT_EQ(advice_for(voice, text), text);
}

}  // namespace
}  // namespace perigee
