#include "check.h"
#include "ops/space.h"

using namespace ff;

namespace {

OpCall call_of(std::vector<Shape> inputs, std::vector<Shape> outputs) {
  OpCall call{.op = "op", .name = "op", .attrs = {}, .inputs = {}, .outputs = {}, .box = {}};
  for (Shape& shape : inputs) call.inputs.push_back({DType::float32, std::move(shape)});
  for (Shape& shape : outputs) call.outputs.push_back({DType::float32, std::move(shape)});
  return call;
}

std::string text(const Box& box) {
  std::vector<std::string> parts;
  for (const IndexRange& r : box) parts.push_back(cat(r.name, ":", r.global));
  return join(parts, " ");
}

TEST(a_line_is_parsed) {
  const Space space = Space::parse("b* i, o i, o -> b* o", Combiner::sum);
  CHECK(space.inputs.size() == 3 && space.outputs.size() == 1);
  CHECK((space.inputs[0] == Space::Axes{{"b", true}, {"i", false}}));
  CHECK((space.outputs[0] == Space::Axes{{"b", true}, {"o", false}}));
  CHECK_THROWS(Space::parse("b* i", Combiner::sum), "without an arrow");
}

TEST(indices_have_the_extents_of_the_operands) {
  const Space space = Space::parse("b* i, o i, o -> b* o", Combiner::sum);
  CHECK(text(space.indices(call_of({{2, 3, 5}, {7, 5}, {7}}, {{2, 3, 7}}))) == "b0:2 b1:3 o:7 i:5");
  CHECK(text(space.indices(call_of({{5}, {7, 5}}, {{7}}))) == "o:7 i:5");  // without bias, without batch
  CHECK_THROWS(space.indices(call_of({{2, 5}, {7, 6}}, {{2, 7}})), "index i has extents 5 and 6");
  CHECK_THROWS(space.indices(call_of({{2, 5}, {7, 5, 1}}, {{2, 7}})), "rank 3");
}

TEST(regions_follow_the_letters) {
  const Space space = Space::parse("b* i, o i, o -> b* o", Combiner::sum);
  const OpCall call = call_of({{4, 5}, {7, 5}, {7}}, {{4, 7}});
  Box box = space.indices(call);
  box[1].origin = 3;  // o
  box[1].extent = 2;
  CHECK((space.region(call, box, {false, 0}) == Rect{{0, 0}, {4, 5}}));
  CHECK((space.region(call, box, {false, 1}) == Rect{{3, 0}, {2, 5}}));
  CHECK((space.region(call, box, {false, 2}) == Rect{{3}, {2}}));
  CHECK((space.region(call, box, {true, 0}) == Rect{{0, 3}, {4, 2}}));
  CHECK(space.combined("i") && !space.combined("o") && !space.combined("b0"));
}

TEST(the_last_input_can_repeat) {
  const Space space = Space::parse("x*... -> x*", Combiner::sum);
  const OpCall call = call_of({{2, 3}, {2, 3}, {2, 3}}, {{2, 3}});
  CHECK(text(space.indices(call)) == "x0:2 x1:3");
  CHECK((space.region(call, space.indices(call), {false, 2}) == Rect{{0, 0}, {2, 3}}));
}

TEST(scalars_and_opaque_operands_have_no_index) {
  const Space space = Space::parse("x*, -> x*", Combiner::sum);
  OpCall call = call_of({{3}, {}}, {{3}});
  CHECK(text(space.indices(call)) == "x0:3");
  CHECK((space.region(call, space.indices(call), {false, 1}) == Rect{}));
  call.outputs.push_back({DType::opaque, {0}});
  CHECK(text(space.indices(call)) == "x0:3");
}

}  // namespace
