# Special registers, and the trap that ends a core.

        .section .text._outboard_prid, "ax"
        .global _outboard_prid
        .type   _outboard_prid, @function
_outboard_prid:
        entry   a1, 32
        rsr.prid a2
        retw.n
        .size   _outboard_prid, . - _outboard_prid

# Says that a stream of elements begins at the address in a2 and a3: nothing on a device, a mark for who watches it.
        .section .text._outboard_stream, "ax"
        .global _outboard_stream
        .type   _outboard_stream, @function
_outboard_stream:
        entry   a1, 32
        retw.n
        .size   _outboard_stream, . - _outboard_stream

        .section .text._outboard_stack_pointer, "ax"
        .global _outboard_stack_pointer
        .type   _outboard_stack_pointer, @function
_outboard_stack_pointer:                        # the caller's
        entry   a1, 32
        addi    a2, a1, 32
        retw.n
        .size   _outboard_stack_pointer, . - _outboard_stack_pointer

        .section .text._outboard_stack_limit, "ax"
        .global _outboard_stack_limit
        .type   _outboard_stack_limit, @function
_outboard_stack_limit:
        entry   a1, 32
        rsr.isl a2
        retw.n
        .size   _outboard_stack_limit, . - _outboard_stack_limit

# a2: text, a3: its length. Does not return.
        .section .text._outboard_trap, "ax"
        .global _outboard_trap
        .type   _outboard_trap, @function
_outboard_trap:
        entry   a1, 32
        memw
        break   1, 14
1:      j       1b
        .size   _outboard_trap, . - _outboard_trap
