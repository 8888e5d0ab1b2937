    .data
table: .word 1, table + 4, 0x1234
    .byte 1, 2, 'a'
    .align 8
    .ascii "text\n"
    .space 3
    .text
    .global go
    .weak maybe
go: entry a1, 32
    movi a2, 0x12345678
    movi a3, table
    const16 a4, hi(table)
    const16 a4, lo(table)
    beqz a4, go
    loop a2, end
    addi a2, a2, -1
end: retw
