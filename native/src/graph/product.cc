#include "graph/product.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "base/error.h"

namespace ff {
namespace {

using Names = Product::Names;

bool has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

[[noreturn]] void refuse(const std::string& who, const std::string& equation, const std::string& fault) {
  bad_value(who, ": equation \"", equation, "\" ", fault,
            "; expected two operands and their product, for example \"b n k, b k m -> b n m\"");
}

Names names_of(const std::string& text, const std::string& equation, const std::string& who) {
  std::istringstream in(text);
  Names names;
  for (std::string name; in >> name;) {
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0; }))
      refuse(who, equation, cat("has the name \"", name, "\", where letters and digits are expected"));
    if (has(names, name)) refuse(who, equation, cat("has \"", name, "\" twice in one operand"));
    names.push_back(name);
  }
  return names;
}

int64_t stride_in(const Names& names, const Shape& shape, const std::string& name) {
  int64_t stride = 1;
  for (size_t d = names.size(); d-- > 0; stride *= shape[d])
    if (names[d] == name) return stride;
  return 0;
}

}  // namespace

Product Product::parse(const std::string& equation, const std::string& who) {
  const size_t arrow = equation.find("->"), comma = equation.find(',');
  if (arrow == std::string::npos || comma > arrow || equation.find(',', comma + 1) != std::string::npos)
    refuse(who, equation, "is not of the form \"a, b -> c\"");
  const Product product{names_of(equation.substr(0, comma), equation, who),
                        names_of(equation.substr(comma + 1, arrow - comma - 1), equation, who),
                        names_of(equation.substr(arrow + 2), equation, who)};
  for (const Names* names : {&product.a, &product.b, &product.c})
    for (const std::string& name : *names)
      if (has(product.a, name) + has(product.b, name) + has(product.c, name) < 2)
        refuse(who, equation, cat("has \"", name, "\" only once; sum over it or broadcast first"));
  return product;
}

std::string to_string(const Product::Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

Product product_of(const OpCall& call) {
  if (call.op != "batch_matmul") return Product::parse(call.attrs.text("equation"), call.name);
  Names batch;
  for (size_t d = 0; d + 2 < call.inputs[0].rank(); ++d) batch.push_back(cat("b", d));
  Product product{batch, batch, batch};
  product.a.insert(product.a.end(), {"n", "k"});
  product.b.insert(product.b.end(), {"k", "m"});
  product.c.insert(product.c.end(), {"n", "m"});
  return product;
}

ProductLoops loops_of(const OpCall& call) {
  const Product product = product_of(call);
  const Shape &a = call.inputs[0].shape, &b = call.inputs[1].shape, &c = call.outputs[0].shape;
  const auto loop = [&](const std::string& name, int64_t extent) {
    return ProductLoop{extent,
                       {stride_in(product.a, a, name), stride_in(product.b, b, name), stride_in(product.c, c, name)}};
  };
  ProductLoops loops;
  for (size_t d = 0; d < c.size(); ++d) loops.kept.push_back(loop(product.c[d], c[d]));
  for (size_t d = 0; d < a.size(); ++d)
    if (!has(product.c, product.a[d])) loops.summed.push_back(loop(product.a[d], a[d]));
  return loops;
}

}  // namespace ff
