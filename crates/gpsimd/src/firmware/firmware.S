# The simulated firmware: what a library is called through, and what it calls back. It holds no addresses of its own,
# so that it runs wherever the host puts it. FIRMWARE is the address of its data:
#   0x00 record handed to libraries (36 bytes)
#   0x40 data scratch address, size; 0x48 HBM scratch address (8 bytes), size; 0x54 read doorbell, write doorbell
#   0x60 number of registered functions; 0x64 status of the last registration
#   0x80 functions: handle, name, function, opcode (16 bytes each, FUNCTIONS of them)

        .text
# a2: function, a3..a6: its arguments. Ends with the result in a10.
        .global dispatch
        .type   dispatch, @function
dispatch:
        mov     a10, a3
        mov     a11, a4
        mov     a12, a5
        mov     a13, a6
        callx8  a2
        simcall
1:      j       1b
        .size   dispatch, . - dispatch

        .align  4
# a2: handle, a3: name, a4: function. Returns 0, or 1 when the table is full.
        .global register_function
        .type   register_function, @function
register_function:
        entry   a1, 32
        movi    a5, 0
        j       register
        .size   register_function, . - register_function

        .align  4
# a2: handle, a3: name, a4: opcode. The function registered last gets the opcode.
        .global register_opcode
        .type   register_opcode, @function
register_opcode:
        entry   a1, 32
        const16 a8, FIRMWARE >> 16
        const16 a8, FIRMWARE & 0xffff
        l32i    a9, a8, 0x60
        beqz    a9, 1f
        slli    a9, a9, 4
        add     a9, a9, a8
        s32i    a4, a9, 0x80 - 4
        movi    a2, 0
        retw
1:      movi    a2, 1
        retw
        .size   register_opcode, . - register_opcode

        .align  4
register:
        const16 a8, FIRMWARE >> 16
        const16 a8, FIRMWARE & 0xffff
        l32i    a9, a8, 0x60
        movi    a10, FUNCTIONS
        bgeu    a9, a10, 1f
        slli    a11, a9, 4
        add     a11, a11, a8
        movi    a12, 0x80
        add     a11, a11, a12
        s32i    a2, a11, 0
        s32i    a3, a11, 4
        s32i    a4, a11, 8
        s32i    a5, a11, 12
        addi    a9, a9, 1
        s32i    a9, a8, 0x60
        movi    a2, 0
        retw
1:      movi    a2, 1
        s32i    a2, a8, 0x64
        retw

        .align  4
# a2: place for the address, a3: place for the size.
        .global get_data_scratch
        .type   get_data_scratch, @function
get_data_scratch:
        entry   a1, 32
        const16 a8, FIRMWARE >> 16
        const16 a8, FIRMWARE & 0xffff
        l32i    a9, a8, 0x40
        s32i    a9, a2, 0
        l32i    a9, a8, 0x44
        s32i    a9, a3, 0
        movi    a2, 0
        retw
        .size   get_data_scratch, . - get_data_scratch

        .align  4
# a2: place for the 64-bit address, a3: place for the size.
        .global get_hbm_scratch
        .type   get_hbm_scratch, @function
get_hbm_scratch:
        entry   a1, 32
        const16 a8, FIRMWARE >> 16
        const16 a8, FIRMWARE & 0xffff
        l32i    a9, a8, 0x48
        s32i    a9, a2, 0
        l32i    a9, a8, 0x4c
        s32i    a9, a2, 4
        l32i    a9, a8, 0x50
        s32i    a9, a3, 0
        movi    a2, 0
        retw
        .size   get_hbm_scratch, . - get_hbm_scratch

        .align  4
# a2: place for the read doorbell, a3: place for the write doorbell.
        .global get_dma_queue
        .type   get_dma_queue, @function
get_dma_queue:
        entry   a1, 32
        const16 a8, FIRMWARE >> 16
        const16 a8, FIRMWARE & 0xffff
        l32i    a9, a8, 0x54
        s32i    a9, a2, 0
        l32i    a9, a8, 0x58
        s32i    a9, a3, 0
        movi    a2, 0
        retw
        .size   get_dma_queue, . - get_dma_queue

        .align  4
# A routine that is offered and has nothing behind it: returns 1.
        .global not_offered
        .type   not_offered, @function
not_offered:
        entry   a1, 32
        movi    a2, 1
        retw
        .size   not_offered, . - not_offered
