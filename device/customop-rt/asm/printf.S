# Variable arguments: saves the argument registers and describes them, as compiled code describes a va_list:
# 32 bytes below the first argument on the stack, the saved registers, bytes used.

        .section .text.printf, "ax"
        .global printf
        .type   printf, @function
printf:                                         # a2: format, a3..a7 and the stack: arguments
        entry   a1, 80
        s32i    a2, a1, 0
        s32i    a3, a1, 4
        s32i    a4, a1, 8
        s32i    a5, a1, 12
        s32i    a6, a1, 16
        s32i    a7, a1, 20
        addi    a8, a1, 80 - 32
        s32i    a8, a1, 24                      # stack
        s32i    a1, a1, 28                      # registers
        movi    a8, 4                           # the format is used already
        s32i    a8, a1, 32
        mov     a10, a2
        addi    a11, a1, 24
        movi    a8, _outboard_print
        callx8  a8
        mov     a2, a10
        retw.n
        .size   printf, . - printf

        .section .text.vprintf, "ax"
        .global vprintf
        .type   vprintf, @function
vprintf:                                        # a2: format, a3..a5: the three words of a va_list
        entry   a1, 48
        s32i    a3, a1, 0
        s32i    a4, a1, 4
        s32i    a5, a1, 8
        mov     a10, a2
        mov     a11, a1
        movi    a8, _outboard_print
        callx8  a8
        mov     a2, a10
        retw.n
        .size   vprintf, . - vprintf
