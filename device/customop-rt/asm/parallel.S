# Which core this is, and how many there are. Instruction by instruction what the original's object has.
# CPU_COUNT is given by the build.

        .section .text._Z10get_cpu_idv, "ax"
        .global _Z10get_cpu_idv
        .type   _Z10get_cpu_idv, @function
_Z10get_cpu_idv:
        entry   a1, 32
        const16 a2, hi(cpu_id)
        const16 a2, lo(cpu_id)
        l32i.n  a2, a2, 0
        retw.n
        .size   _Z10get_cpu_idv, . - _Z10get_cpu_idv

        .section .text._Z13get_cpu_countv, "ax"
        .global _Z13get_cpu_countv
        .type   _Z13get_cpu_countv, @function
_Z13get_cpu_countv:
        entry   a1, 32
        movi.n  a2, CPU_COUNT
        retw.n
        .size   _Z13get_cpu_countv, . - _Z13get_cpu_countv

        .section .text._GLOBAL__sub_I_parallel.cpp, "ax"
        .type   _GLOBAL__sub_I_parallel.cpp, @function
_GLOBAL__sub_I_parallel.cpp:
        entry   a1, 32
        const16 a2, hi(cpu_id)
        const16 a2, lo(cpu_id)
        rsr.prid a3
        s32i.n  a3, a2, 0
        retw.n
        .size   _GLOBAL__sub_I_parallel.cpp, . - _GLOBAL__sub_I_parallel.cpp

        .section .ctors, "aw"
        .word   _GLOBAL__sub_I_parallel.cpp

        .section .bss.cpu_id, "aw", @nobits
        .align  4
cpu_id: .space  4
