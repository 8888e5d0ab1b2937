// The C++ runtime's tests: MODULE INPUT [--shape D,D] [--dtype float32] [--ref FILE] [--atol X]. Returns the number of failures.
#include "c7x_runtime.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

namespace {

int failures = 0;

void report(const char *test, bool passed, const std::string &why = "") {
  std::printf("%s %s%s%s\n", passed ? "PASS" : "FAIL", test, why.empty() ? "" : ": ", why.c_str());
  failures += passed ? 0 : 1;
}

std::vector<char> read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return std::vector<char>(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

std::vector<char> copy(const c7x::OutputTensor &tensor) {
  const char *data = static_cast<const char *>(tensor.dl.data);
  return std::vector<char>(data, data + tensor.data_size);
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3) {
    return 99;
  }
  std::vector<int64_t> shape = {1, 64};
  DLDataType dtype = {kDLFloat, 32, 1};
  std::string reference;
  double tolerance = 1e-3;
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--shape") {
      shape.clear();
      std::stringstream list(argv[i + 1]);
      for (std::string dim; std::getline(list, dim, ',');) {
        shape.push_back(std::atoll(dim.c_str()));
      }
    } else if (option == "--ref") {
      reference = argv[i + 1];
    } else if (option == "--atol") {
      tolerance = std::atof(argv[i + 1]);
    } else if (option == "--dtype" && std::strcmp(argv[i + 1], "int8") == 0) {
      dtype = {kDLInt, 8, 1};
    }
  }
  std::vector<char> data = read(argv[2]);
  DLTensor input = {};
  input.data = data.data();
  input.device.device_type = kDLCPU;
  input.ndim = static_cast<int32_t>(shape.size());
  input.dtype = dtype;
  input.shape = shape.data();

  try {
    c7x::Module module = c7x::Module::Load(argv[1]);
    module.Close();
    module.Close();
    bool refused = false;
    try {
      module.Run(&input);
    } catch (const std::runtime_error &) {
      refused = true;
    }
    report("load_close", refused);
  } catch (const std::exception &error) {
    report("load_close", false, error.what());
    return failures;
  }

  try {
    c7x::Module loaded = c7x::Module::Load(argv[1]);
    c7x::Module module = std::move(loaded);
    const c7x::OutputTensor first = module.Run(&input);
    c7x::OutputTensor output;
    output = first;
    report("inference", output.dl.ndim > 0 && output.data_size > 0 && output.dl.shape == output._shape && module.LastCycles() > 0);
    const std::vector<char> result = copy(output);

    if (!reference.empty()) {
      const std::vector<char> expected = read(reference);
      double worst = expected.size() == result.size() ? 0.0 : INFINITY;
      for (size_t i = 0; worst != INFINITY && i + 4 <= result.size(); i += 4) {
        float a = 0, b = 0;
        std::memcpy(&a, &result[i], 4);
        std::memcpy(&b, &expected[i], 4);
        worst = std::max(worst, std::fabs(static_cast<double>(a) - static_cast<double>(b)));
      }
      report("reference", worst <= tolerance, std::to_string(worst));
    }

    size_t size = 0;
    DLTensor *created = module.CreateInput(shape.data(), static_cast<int>(shape.size()), dtype);
    const char *staging = static_cast<const char *>(module.StagingBuffer(&size));
    const char *place = created == nullptr ? nullptr : static_cast<const char *>(created->data);
    report("create_input_range", place != nullptr && place >= staging && place + data.size() <= staging + size);
    if (created != nullptr) {
      std::memcpy(created->data, data.data(), data.size());
      report("create_input_result", copy(module.Run(created)) == result);
      // A copied input of another call leaves what lies in the buffer alone.
      module.Run(&input);
      report("create_input_survives_copies", copy(module.Run(created)) == result);
    }
    const int64_t deep[7] = {1, 1, 1, 1, 1, 1, 1};
    report("create_input_refuses_seven_dimensions", module.CreateInput(deep, 7, dtype) == nullptr);

    bool same = true;
    for (int i = 0; i < 3; i++) {
      same = same && copy(module.Run(&input)) == result;
    }
    report("repeated_infer", same);

    const DLTensor *inputs[1] = {&input};
    std::vector<c7x::OutputTensor> outputs(c7x::kMaxOutputs);
    int count = 0;
    const c7x::Function function = module["main"];
    report("function", function(inputs, 1, outputs.data(), &count) == 0 && count >= 1 && copy(outputs[0]) == result);
    report("function_without_inputs", function(inputs, 0, outputs.data(), &count) == -EINVAL);
    int64_t strides[6] = {1, 1, 1, 1, 1, 1};
    DLTensor strided = input;
    strided.strides = strides;
    inputs[0] = &strided;
    report("function_refuses_gaps", function(inputs, 1, outputs.data(), &count) == -EINVAL);
  } catch (const std::exception &error) {
    report("session", false, error.what());
  }

  try {
    c7x::Module::Load("/nowhere/lib0.out");
    report("missing_module", false);
  } catch (const std::runtime_error &error) {
    report("missing_module", std::strstr(error.what(), "/nowhere/lib0.out") != nullptr, error.what());
  }
  return failures;
}
