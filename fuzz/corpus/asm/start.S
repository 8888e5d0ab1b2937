# Start and system calls of a program with the windowed ABI under Linux's user ABI (qemu-xtensa, outboard xt run).
    .section .text.start, "ax"
    .global _start
    .type _start, @function
_start:
# Nobody called: calls of the smallest window keep a0 to a3, and need no frame of a caller when they are spilled.
    movi a0, 0
    movi a2, __init_array_start
    movi a3, __init_array_end
.Linit:
    beq a2, a3, .Lctors
    l32i a4, a2, 0
    callx4 a4
    addi a2, a2, 4
    j .Linit
.Lctors:
    movi a2, __ctors_start
    movi a3, __ctors_end
.Lctor:
    beq a2, a3, .Lmain
    addi a3, a3, -4
    l32i a4, a3, 0
    callx4 a4
    j .Lctor
.Lmain:
    movi a4, device_main
    callx4 a4
    movi a2, 118
    syscall
    .size _start, . - _start

    .section .text.sys_write, "ax"
    .global sys_write
    .type sys_write, @function
sys_write:
    entry a1, 48
    mov a6, a2
    movi a2, 13
    syscall
    retw
