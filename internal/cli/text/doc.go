// Package text formats values for people on a terminal: amounts of money and time, names of offers, tables that fit the
// width, colours. It prints nothing itself and knows no commands.
//
// Its inputs may come from an untrusted file or a cloud's response, so Clean removes everything that could control a
// terminal.
package text
