// Package text turns values into what people read on a terminal: amounts of
// money and time, names of offers, tables that fit the width, colours. It
// writes nothing by itself and knows no commands.
//
// Whatever it is given may come from a stranger's file or a cloud's answer, so
// Clean takes out what could drive a terminal.
package text
