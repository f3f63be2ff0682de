// Recurrent layers step by step: peepholes, projection, layer norm, zoneout, recurrent dropout, other activations. The graph grows with the
// number of steps, so the common cells have ops of whole sequences.
#include <algorithm>

#include "src/nn/layers/recurrent.h"
#include "src/nn/noise.h"

namespace perigee {
namespace {

struct State {
  Value h, c;  // empty: zeros
};

class StepBuilder {
 public:
  StepBuilder(LayerContext& context, const Recurrence& r, Value z, Value recurrent, Value bias_recurrent)
      : context_(context),
        r_(r),
        z_(z),
        recurrent_(recurrent),
        bias_recurrent_(bias_recurrent),
        units_(z.shape()[2] / gates_of(r.cell)),
        zoneout_(context.options().number("zoneout")),
        norm_(context.options().boolean("layer_norm")) {
    const int64_t out = z.shape()[2], state = recurrent.shape()[0];
    if (norm_) gain_ = gain("gain_recurrent", Shape{out}, 1.0);
    if (r.cell == RecurrentCell::gru) after_ = context.options().choice("reset") == "after";
    if (norm_ && !after_)
      context.fail("layer_norm needs the reset gate behind the product", "reset = before", "reset = after", "leave 'reset' out");
    if (r.cell == RecurrentCell::lstm) declare_lstm(state);
    const double rate = context.options().number("recurrent_dropout");
    if (rate > 0 && context.training()) {
      const Value like = part_of(step_of(z, 0), 1, 0, std::min(state, out));
      kept_ = dropped(ones_like(like), uniform_like(context, "recurrent" + r.suffix, like), rate);
    }
  }

  RecurrentStates run() {
    const int64_t steps = z_.shape()[1];
    State state{r_.h0, r_.c0};
    std::vector<Value> after(static_cast<size_t>(steps));
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t t = r_.reverse ? steps - 1 - i : i;
      state = settled(state, next(step_of(z_, t), state), t);
      after[static_cast<size_t>(t)] = reshape(state.h, Shape{state.h.shape()[0], 1, state.h.shape()[1]});
    }
    const Value h = after.size() == 1 ? after[0] : concatenate(after, 1);
    return {h, state.c};
  }

 private:
  Value gain(const char* name, const Shape& shape, double initial) {
    const int64_t n = shape.at(-1);
    return context_.parameter(name + r_.suffix, shape, ParameterRole::gain, n, n, initial);
  }

  void declare_lstm(int64_t state) {
    const Config& options = context_.options();
    if (options.boolean("peepholes"))
      for (size_t i = 0; i < 3; ++i) peepholes_[i] = gain(std::array{"peephole_i", "peephole_f", "peephole_o"}[i], Shape{units_}, 0.0);
    if (options.integer("projection") > 0)
      projection_ = context_.parameter("projection" + r_.suffix, Shape{units_, state}, ParameterRole::weight, units_, state, "xavier");
    if (norm_) {
      gain_c_ = gain("gain_cell", Shape{units_}, 1.0);
      shift_c_ = context_.parameter("bias_cell" + r_.suffix, Shape{units_}, ParameterRole::bias, units_, units_, 0.0);
    }
  }

  // The state, or its products with weights, is nothing at first.
  Value dropped_state(Value h) const { return h && kept_ ? h * kept_ : h; }
  Value products(Value h, Value weight) const {
    if (!h) return {};
    const Value product = matmul(h, weight);
    return norm_ ? context_.graph().apply("layer_norm", {product, gain_}) : product;
  }
  static Value sum(Value a, Value b) { return b ? a + b : a; }

  Value gate(Value x) const {
    const std::string kind = context_.options().choice("gate_activation");
    if (kind == "hard_sigmoid6") {
      const Value line = x / 6.0 + 0.5;
      return minimum(maximum(line, zeros_like(line)), ones_like(line));
    }
    return context_.activation(kind, x);
  }
  Value squash(Value x) const {
    const Json* activation = context_.options().raw("activation");
    return context_.activation(activation == nullptr || activation->is_null() ? Json("tanh") : *activation, x);
  }
  Value part(Value sums, int64_t g) const { return part_of(sums, 1, g * units_, (g + 1) * units_); }

  State next(Value x, const State& old) const {
    const Value h = dropped_state(old.h);
    switch (r_.cell) {
      case RecurrentCell::lstm: return lstm(sum(x, products(h, recurrent_)), old.c);
      case RecurrentCell::gru: return {gru(x, h, old.h), {}};
      default: return {squash(sum(x, products(h, recurrent_))), {}};
    }
  }

  State lstm(Value sums, Value c) const {
    const auto peep = [&](Value gate_sum, size_t i, Value cell) {
      return peepholes_[i] && cell ? gate_sum + peepholes_[i] * cell : gate_sum;
    };
    const Value input = gate(peep(part(sums, 0), 0, c)), forget = gate(peep(part(sums, 1), 1, c)), candidate = squash(part(sums, 2));
    const Value cell = c ? forget * c + input * candidate : input * candidate;
    const Value output = gate(peep(part(sums, 3), 2, cell));
    const Value shown = norm_ ? context_.graph().apply("layer_norm", {cell, gain_c_, shift_c_}) : cell;
    const Value h = output * squash(shown);
    return {projection_ ? matmul(h, projection_) : h, cell};
  }

  // `h` has some units dropped where that is wanted, `old` has not.
  Value gru(Value x, Value h, Value old) const {
    if (after_) {
      const Value products_of = products(h, recurrent_);
      const auto sums = [&](int64_t g) { return sum(part(x, g), products_of ? part(products_of, g) : Value()); };
      const Value reset = gate(sums(0)), update = gate(sums(1));
      Value inner = products_of ? part(products_of, 2) : Value();
      if (bias_recurrent_) inner = inner ? inner + bias_recurrent_ : bias_recurrent_;
      return mixed(update, squash(inner ? part(x, 2) + reset * inner : part(x, 2)), old);
    }
    if (!h) return mixed(gate(part(x, 1)), squash(part(x, 2)), old);
    const Value sums = part_of(x, 1, 0, 2 * units_) + matmul(h, part_of(recurrent_, 1, 0, 2 * units_));
    const Value reset = gate(part(sums, 0)), update = gate(part(sums, 1));
    return mixed(update, squash(part(x, 2) + matmul(reset * h, part_of(recurrent_, 1, 2 * units_, 3 * units_))), old);
  }
  static Value mixed(Value update, Value candidate, Value old) {
    const Value fresh = (1.0 - update) * candidate;
    return old ? fresh + update * old : fresh;
  }

  // Zoneout, then the mask: units and examples that keep their state.
  State settled(const State& old, const State& fresh, int64_t t) const {
    State state = fresh;
    if (zoneout_ > 0) {
      state.h = zoned(old.h, fresh.h, "zoneout_h" + r_.suffix, t);
      if (fresh.c) state.c = zoned(old.c, fresh.c, "zoneout_c" + r_.suffix, t);
    }
    if (!r_.mask) return state;
    const Value column = part_of(r_.mask, 1, t, t + 1);
    const Value on = greater(column, full_like(column, 0.5));
    const auto kept = [&](Value before, Value now) { return where(on, now, before ? before : zeros_like(now)); };
    state.h = kept(old.h, state.h);
    if (state.c) state.c = kept(old.c, state.c);
    return state;
  }

  Value zoned(Value old, Value fresh, const std::string& purpose, int64_t t) const {
    const Value before = old ? old : zeros_like(fresh);
    if (!context_.training()) return before * zoneout_ + fresh * (1 - zoneout_);
    const Value draws = uniform_like(context_, purpose + "_" + std::to_string(t), fresh);
    return where(greater(full_like(draws, zoneout_), draws), before, fresh);
  }

  LayerContext& context_;
  const Recurrence& r_;
  Value z_, recurrent_, bias_recurrent_;
  int64_t units_;
  double zoneout_;
  bool norm_, after_ = true;
  Value gain_, gain_c_, shift_c_, projection_, kept_;
  Value peepholes_[3];
};

}  // namespace

RecurrentStates run_steps(LayerContext& context, const Recurrence& recurrence, Value z, Value recurrent, Value bias_recurrent) {
  return StepBuilder(context, recurrence, z, recurrent, bias_recurrent).run();
}

}  // namespace perigee
