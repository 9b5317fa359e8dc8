// Package tunnel carries bytes between a person and a machine to which nothing can dial in. Both sides call the
// broker, over HTTP, and the broker keeps what one has sent until the other has taken it.
//
// A direction is a stream of bytes with offsets. Who sends says at which offset a piece begins, so that a piece that is
// sent again, for want of an answer, counts once. Who receives says from which offset on, which acknowledges all
// before it: that is forgotten, and the rest comes again. So either side may lose its connection and go on.
//
// [Conn] makes a connection of such calls. On it, yamux gives each side as many streams as it needs, each with a window
// of its own. What the streams say is in stream.go.
//
// What the broker keeps is in the package relay: an agent has no use for a store.
package tunnel
