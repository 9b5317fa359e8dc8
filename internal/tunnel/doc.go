// Package tunnel carries bytes between a user and a machine that accepts no connections from outside. Both sides call
// the broker over HTTP, and the broker stores the data of one side until the other side has received it.
//
// Each direction is a stream of bytes with offsets. The sender gives the offset at which a piece begins. Thus a piece
// counts once, even if its answer was lost and it is sent again. The receiver gives the offset from which it wants to
// read. That acknowledges all data before the offset, which is dropped; the rest is sent again. So either side may
// lose its connection and continue.
//
// [Conn] makes a connection out of such calls. On it, yamux provides as many streams as each side needs, each with
// its own window. stream.go defines the content of the streams.
//
// Package relay contains the broker's side. It is a separate package because an agent needs no store.
package tunnel
