# Moves to another stack and back. The frame at the top of the new stack keeps, by offset: a0 0, a1 4, a2 8, a3 12, a4 16,
# a5 20, a6 24, a7 28, where to go on 32, LBEG 64, LEND 68, LCOUNT 72, SAR 76, PS 80, PREFCTL 84, ISL 88.
# Until the switch, 84 holds what to run.

# Calls itself until every window register has been used once, which writes all frames to their stacks.
        .section .text.spillWindows, "ax"
        .type   spillWindows, @function
spillWindows:                                   # a2: depth
        entry   a1, 32
        beqz    a2, 1f
        addi    a10, a2, -1
        call8   spillWindows
1:      retw
        .size   spillWindows, . - spillWindows

# Called with call0. a2: frame. a0 of the caller is in the frame already. Changes a8..a15.
        .section .text.saveContext, "ax"
        .global saveContext
        .type   saveContext, @function
saveContext:
        s32i    a1, a2, 4
        s32i    a2, a2, 8
        s32i    a3, a2, 12
        s32i    a4, a2, 16
        s32i    a5, a2, 20
        s32i    a6, a2, 24
        s32i    a7, a2, 28
        rsr     a8, lbeg
        s32i    a8, a2, 64
        rsr     a8, lend
        s32i    a8, a2, 68
        rsr     a8, lcount
        s32i    a8, a2, 72
        rsr     a8, sar
        s32i    a8, a2, 76
        rsr     a8, ps
        s32i    a8, a2, 80
        rsr     a8, prefctl
        s32i    a8, a2, 84
        rsr     a8, isl
        s32i    a8, a2, 88
        movi    a8, 0
        wsr     a8, lcount
        isync
        movi    a10, 8                          # 64 registers, two quads for each call
        movi    a8, spillWindows
        callx8  a8
        ret
        .size   saveContext, . - saveContext

# a2: frame, a3: lowest address of the new stack. Returns what the frame's entry returns.
        .section .text.switchStack, "ax"
        .global switchStack
        .type   switchStack, @function
switchStack:
        entry   a1, 48
        l32i    a4, a2, 84
        l32i    a5, a2, 32
        s32i    a0, a2, 0
        movi    a8, saveContext
        callx0  a8
        l32i    a0, a2, 0                       # movsp looks in it for the caller's window
        movsp   a1, a2
        wsr     a3, isl
        rsync
        callx8  a4
        jx      a5
        .size   switchStack, . - switchStack

# a2: frame, a10: result.
        .section .text.switchBack, "ax"
        .global switchBack
        .type   switchBack, @function
switchBack:
        l32i    a8, a2, 88
        wsr     a8, isl
        rsync
        l32i    a0, a2, 0
        l32i    a8, a2, 4
        movsp   a1, a8
        l32i    a8, a2, 64
        wsr     a8, lbeg
        l32i    a8, a2, 68
        wsr     a8, lend
        l32i    a8, a2, 72
        wsr     a8, lcount
        l32i    a8, a2, 76
        wsr     a8, sar
        l32i    a8, a2, 84
        wsr     a8, prefctl
        l32i    a8, a2, 80
        wsr     a8, ps
        isync
        l32i    a3, a2, 12
        l32i    a4, a2, 16
        l32i    a5, a2, 20
        l32i    a6, a2, 24
        l32i    a7, a2, 28
        mov     a2, a10
        retw
        .size   switchBack, . - switchBack
