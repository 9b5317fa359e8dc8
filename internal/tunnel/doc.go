// Package tunnel carries bytes between a user and a machine to which nothing can dial in. Both sides call the broker
// over HTTP, and the broker stores the data of one side until the other has received it.
//
// Each direction is a stream of bytes with offsets. The sender gives the offset at which a piece begins, so that a
// piece that is sent again, because the answer was lost, counts once. The receiver gives the offset from which it
// wants to read. That acknowledges everything before it, which is dropped; the rest is sent again. So either side may
// lose its connection and continue.
//
// [Conn] makes a connection out of such calls. On it, yamux provides as many streams as each side needs, each with
// its own window. stream.go defines the content of the streams.
//
// Package relay contains the broker's side, because an agent needs no store.
package tunnel
