/* ---- The entry: checks what it is given, makes room for the outputs, runs the model ------------------------------- */

static const DLDevice outboard_cpu = {1, 0};

/* The register file. What is in it when the entry returns is released by the device. */
static TVMFFIAny outboard_registers[OUTBOARD_OUTPUTS + 1];

static void outboard_print_tensor(DLDataType dtype, int32_t ndim, const int64_t *shape) {
  static const char *const kinds[] = {"int", "uint", "float"};
  if (dtype.code <= DL_FLOAT) {
    printf("%s%d[", kinds[dtype.code], (int)dtype.bits);
  } else {
    const char *form = dtype.code == DL_BOOL ? "bool[" : dtype.code == DL_BFLOAT ? "bfloat16[" : "type %d.%d[";
    printf(form, (int)dtype.code, (int)dtype.bits);
  }
  for (int32_t i = 0; i < ndim; i++) {
    printf(i == 0 ? "%lld" : ",%lld", (long long)shape[i]);
  }
  printf("]");
}

static int outboard_same_dtype(const OutboardTensor *expected, DLDataType given) {
  const int is_bool = expected->is_bool && given.code == DL_BOOL;
  return given.lanes == 1 && (is_bool || (given.code == expected->dtype.code && given.bits == expected->dtype.bits));
}

static int outboard_same_shape(const OutboardTensor *expected, const TVMDSPNDArray *tensor) {
  int same = tensor->ndim == expected->ndim;
  for (int32_t i = 0; same && i < expected->ndim; i++) {
    same = tensor->shape[i] == expected->shape[i];
  }
  return same;
}

static int outboard_is_dense(const TVMDSPNDArray *tensor) {
  int64_t stride = 1;
  for (int32_t i = tensor->ndim - 1; tensor->strides != NULL && i >= 0; i--) {
    if (tensor->shape[i] != 1 && tensor->strides[i] != stride) {
      return 0;
    }
    stride *= tensor->shape[i];
  }
  return 1;
}

/* The variant for inputs of these shapes; the last one, whose sizes are the largest, when there is none. */
static int32_t outboard_variant(const TVMFFIAny *inputs) {
  for (int32_t variant = 0; variant < OUTBOARD_VARIANTS - 1; variant++) {
    int same = 1;
    for (int i = 0; same && i < OUTBOARD_INPUTS; i++) {
      const TVMDSPNDArray *tensor = inputs[i].u.v_ptr;
      same = inputs[i].type_index == TVM_FFI_TENSOR && tensor != NULL &&
             outboard_same_shape(&outboard_inputs[variant][i], tensor);
    }
    if (same) {
      return variant;
    }
  }
  return OUTBOARD_VARIANTS - 1;
}

/* Finds the data of an input, or prints a line that says why it cannot be taken. */
static int outboard_input(int32_t variant, int index, const TVMFFIAny *given, void **data) {
  const OutboardTensor *expected = &outboard_inputs[variant][index];
  const TVMDSPNDArray *tensor = given->u.v_ptr;
  if (given->type_index != TVM_FFI_TENSOR || tensor == NULL) {
    printf(OUTBOARD_MODEL ": input %d \"%s\" is not a tensor\n", index, expected->name);
    return OUTBOARD_ERROR;
  }
  if (!outboard_same_shape(expected, tensor) || !outboard_same_dtype(expected, tensor->dtype)) {
    printf(OUTBOARD_MODEL ": input %d \"%s\": expected %s", index, expected->name,
           OUTBOARD_VARIANTS > 1 ? "at most " : "");
    outboard_print_tensor(expected->dtype, expected->ndim, expected->shape);
    printf(", got ");
    outboard_print_tensor(tensor->dtype, tensor->ndim, tensor->shape);
    printf("\n");
    return OUTBOARD_ERROR;
  }
  *data = (char *)tensor->data + tensor->byte_offset;
  const int missing = tensor->data == NULL && expected->bytes > 0;
  const int misaligned = (uintptr_t)*data % (expected->dtype.bits / 8) != 0;
  if (missing || misaligned || !outboard_is_dense(tensor)) {
    printf(OUTBOARD_MODEL ": input %d \"%s\": the data at %p is %s\n", index, expected->name, *data,
           missing ? "missing" : misaligned ? "not aligned" : "not dense");
    return OUTBOARD_ERROR;
  }
  return OUTBOARD_OK;
}

/* Finds the data of a constant, or prints a line that says what is wrong with it. */
static int outboard_constant(const OutboardConstant *expected, const TVMFFIAny *given, void **data) {
  const TVMDSPNDArray *tensor = given->u.v_ptr;
  int64_t elements = 1;
  if (given->type_index == TVM_FFI_TENSOR && tensor != NULL) {
    for (int32_t i = 0; i < tensor->ndim; i++) {
      elements *= tensor->shape[i];
    }
    if (elements == expected->elements && tensor->dtype.code == expected->dtype.code &&
        tensor->dtype.bits == expected->dtype.bits && (uintptr_t)tensor->data % (expected->dtype.bits / 8) == 0) {
      *data = (char *)tensor->data + tensor->byte_offset;
      return OUTBOARD_OK;
    }
  }
  printf(OUTBOARD_MODEL ": constant %d is not the one this module was compiled with\n", (int)expected->index);
  return OUTBOARD_ERROR;
}

static void outboard_release(TVMFFIAny *reg) {
  if (reg->type_index >= TVM_FFI_OBJECT && reg->u.v_obj != NULL) {
    TVMFFIObjectDecRef(reg->u.v_obj);
  }
  *reg = (TVMFFIAny){0};
}

/* Makes room for an output in its register; the tensor keeps the storage alive. An empty one has no data. */
static int outboard_make_output(int32_t variant, int index, void **data) {
  const OutboardTensor *spec = &outboard_outputs[variant][index];
  TVMDSPStorage *storage = TVMDSPStorageAlloc((size_t)spec->bytes, outboard_cpu, spec->dtype);
  if (storage == NULL) {
    return OUTBOARD_NO_MEMORY;
  }
  TVMDSPNDArray *tensor = TVMDSPStorageAllocNDArray(storage, 0, spec->shape, spec->ndim, spec->dtype);
  TVMFFIObjectDecRef(&storage->header);
  if (tensor == NULL) {
    return OUTBOARD_NO_MEMORY;
  }
  outboard_registers[index] = (TVMFFIAny){.type_index = TVM_FFI_TENSOR, .u.v_ptr = tensor};
  *data = tensor->data;
  return spec->bytes > 0 && *data == NULL ? OUTBOARD_NO_MEMORY : OUTBOARD_OK;
}

/* What the entry gives back: the tensor, or an array of the tensors, which takes over their references. */
static int outboard_make_result(TVMFFIAny *output) {
  if (OUTBOARD_OUTPUTS == 1) {
    *output = outboard_registers[0];
    return OUTBOARD_OK;
  }
  TVMFFIAny *array = &outboard_registers[OUTBOARD_OUTPUTS];
  if (TVMDSPBuiltinMakeTuplePacked(outboard_registers, OUTBOARD_OUTPUTS, array) != 0 || array->u.v_ptr == NULL) {
    return OUTBOARD_NO_MEMORY;
  }
  for (int i = 0; i < OUTBOARD_OUTPUTS; i++) {
    outboard_release(&outboard_registers[i]);
  }
  *output = *array;
  return OUTBOARD_OK;
}

static int outboard_infer(int32_t variant, void *const *in, void *const *constants, TVMFFIAny *output) {
  void *out[OUTBOARD_OUTPUTS + 1] = {0};
  unsigned char *workspace = NULL;
  for (int i = 0; i < OUTBOARD_OUTPUTS; i++) {
    if (outboard_make_output(variant, i, &out[i]) != OUTBOARD_OK) {
      return OUTBOARD_NO_MEMORY;
    }
  }
  if (outboard_workspace_bytes[variant] > 0) {
    workspace = TVMBackendAllocWorkspace(1, 0, outboard_workspace_bytes[variant], DL_UINT, 8);
    if (workspace == NULL) {
      return OUTBOARD_NO_MEMORY;
    }
  }
  outboard_run(variant, in, constants, out, workspace);
  if (workspace != NULL) {
    TVMBackendFreeWorkspace(1, 0, workspace);
  }
  return outboard_make_result(output);
}

int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output) {
  void *in[OUTBOARD_INPUTS + 1] = {0};
  void *data[OUTBOARD_CONSTANTS + 1] = {0};
  if (num_inputs != OUTBOARD_INPUTS) {
    printf(OUTBOARD_MODEL ": expected %d inputs, got %d\n", OUTBOARD_INPUTS, num_inputs);
    return OUTBOARD_ERROR;
  }
  const int32_t variant = outboard_variant(inputs);
  for (int i = 0; i < OUTBOARD_INPUTS; i++) {
    if (outboard_input(variant, i, &inputs[i], &in[i]) != OUTBOARD_OK) {
      return OUTBOARD_ERROR;
    }
  }
  if (OUTBOARD_CONSTANTS > 0 && constants == NULL) {
    printf(OUTBOARD_MODEL ": the constants of the model are not loaded\n");
    return OUTBOARD_ERROR;
  }
  for (int i = 0; i < OUTBOARD_CONSTANTS; i++) {
    if (outboard_constant(&outboard_constants[i], &constants[outboard_constants[i].index], &data[i]) != OUTBOARD_OK) {
      return OUTBOARD_ERROR;
    }
  }
  memset(outboard_registers, 0, sizeof outboard_registers);
  TVMDSPRegFileInit(outboard_registers, OUTBOARD_OUTPUTS + 1);
  int status = outboard_infer(variant, in, data, output);
  if (status != OUTBOARD_OK) {
    for (int i = 0; i <= OUTBOARD_OUTPUTS; i++) {
      outboard_release(&outboard_registers[i]);
    }
  }
  return status;
}
