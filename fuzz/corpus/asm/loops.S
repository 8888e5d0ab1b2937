# Zero-overhead loops, windowed. The same in C: loops.c.
    .text
    .align 4
    .global loop_sum
    .type loop_sum, @function
loop_sum:
    entry a1, 32
    movi a3, 0
    movi a4, 0
    loop a2, .Lsum
    slli a5, a3, 1
    add a3, a3, a5
    add a3, a3, a4
    addi a4, a4, 1
.Lsum:
    mov a2, a3
    retw
    .size loop_sum, . - loop_sum

    .align 4
    .global loop_not_zero
    .type loop_not_zero, @function
loop_not_zero:
    entry a1, 32
    movi a3, 7
    loopnez a2, .Lnot_zero
    addx2 a3, a3, a3
.Lnot_zero:
    mov a2, a3
    retw
    .size loop_not_zero, . - loop_not_zero

    .align 4
    .global loop_positive
    .type loop_positive, @function
loop_positive:
    entry a1, 32
    movi a3, 1
    loopgtz a2, .Lpositive
    addi.n a3, a3, 5
.Lpositive:
    mov a2, a3
    retw
    .size loop_positive, . - loop_positive

# The loop is left by a branch while its count is not zero.
    .align 4
    .global loop_left
    .type loop_left, @function
loop_left:
    entry a1, 32
    movi a4, 0
    loopnez a3, .Lleft
    l8ui a5, a2, 0
    beqz a5, .Lfound
    addi a2, a2, 1
    addi a4, a4, 1
.Lleft:
.Lfound:
    mov a2, a4
    retw
    .size loop_left, . - loop_left

# There is one set of loop registers: the outer loop is closed by a branch.
    .align 4
    .global loop_nested
    .type loop_nested, @function
loop_nested:
    entry a1, 32
    movi a4, 0
    movi a5, 0
.Louter:
    loop a3, .Linner
    addx4 a4, a4, a4
    addi a4, a4, 1
.Linner:
    xor a4, a4, a5
    addi a5, a5, 1
    bne a5, a2, .Louter
    mov a2, a4
    retw
    .size loop_nested, . - loop_nested

# The loop's registers are not saved by calls: a function that loops and calls keeps them itself.
    .align 4
    .global loop_calls
    .type loop_calls, @function
loop_calls:
    entry a1, 48
    movi a3, 1
    movi a4, 0
    movi a5, callee
    loop a2, .Lcalls
    mov a10, a3
    callx8 a5
    add a3, a10, a4
    addi a4, a4, 1
.Lcalls:
    mov a2, a3
    retw
    .size loop_calls, . - loop_calls

# Every fourth turn other code takes the loop's registers and gives them back, as a handler of interrupts does.
    .align 4
    .global loop_interrupted
    .type loop_interrupted, @function
loop_interrupted:
    entry a1, 48
    movi a3, 0
    movi a4, 0
    loop a2, .Linterrupted
    add a3, a3, a4
    extui a5, a4, 0, 2
    bnez a5, .Lgo_on
    rsr a5, lcount
    rsr a6, lbeg
    rsr a7, lend
    s32i a5, a1, 0
    s32i a6, a1, 4
    s32i a7, a1, 8
    movi a10, 5
    call8 loop_sum
    xor a3, a3, a10
    l32i a5, a1, 0
    l32i a6, a1, 4
    l32i a7, a1, 8
    wsr a6, lbeg
    wsr a7, lend
    wsr a5, lcount
    isync
.Lgo_on:
    addi a4, a4, 1
.Linterrupted:
    mov a2, a3
    retw
    .size loop_interrupted, . - loop_interrupted
