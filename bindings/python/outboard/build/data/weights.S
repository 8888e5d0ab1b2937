/*
 * What a module carries beside its code: constants, I/O metadata and notes. The three files are found in the folder the
 * compiler runs in, or by -I.
 */
        .section .rodata.weights, "a"
        .balign 64
        .globl  _binary_weights_bin_start
        .globl  _binary_weights_bin_end
_binary_weights_bin_start:
        .incbin "weights.bin"
_binary_weights_bin_end:

        .section .rodata.outboard, "a"
        .balign 4
        .globl  _binary_weights_bin_size
_binary_weights_bin_size:
        .long   _binary_weights_bin_end - _binary_weights_bin_start

        .balign 8
        .globl  _binary_tvm_dsp_io_meta_start
_binary_tvm_dsp_io_meta_start:
        .incbin "tvm_dsp_io_meta.bin"

        .section .note.outboard, "a", %note
        .balign 4
        .incbin "notes.bin"

        .section .note.GNU-stack, "", %progbits
