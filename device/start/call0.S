# Start and system calls of a program with the call0 ABI under Linux's user ABI (qemu-xtensa, outboard xt run).
    .section .text.start, "ax"
    .global _start
    .type _start, @function
_start:
    movi a0, 0
    movi a12, __init_array_start
    movi a13, __init_array_end
.Linit:
    beq a12, a13, .Lctors
    l32i a2, a12, 0
    callx0 a2
    addi a12, a12, 4
    j .Linit
.Lctors:
    movi a12, __ctors_start
    movi a13, __ctors_end
.Lctor:
    beq a12, a13, .Lmain
    addi a13, a13, -4
    l32i a2, a13, 0
    callx0 a2
    j .Lctor
.Lmain:
    movi a4, device_main
    callx0 a4
    mov a6, a2
    movi a2, 118
    syscall
    .size _start, . - _start

    .section .text.sys_write, "ax"
    .global sys_write
    .type sys_write, @function
sys_write:
    mov a6, a2
    movi a2, 13
    syscall
    ret
    .size sys_write, . - sys_write

    .section .text.sys_exit, "ax"
    .global sys_exit
    .type sys_exit, @function
sys_exit:
    mov a6, a2
    movi a2, 118
    syscall
    .size sys_exit, . - sys_exit

# LLVM calls it where code cannot go on.
    .section .text.abort, "ax"
    .global abort
    .type abort, @function
abort:
    ill
    .size abort, . - abort
