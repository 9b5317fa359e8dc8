// Package pack makes of a folder or a file what any machine can have: pieces that are named by their content, and a
// list, itself named by its content, that says which files they make. So a pack has one name, what is there already is
// not sent again, and a change of the folder afterwards changes nothing of what was packed.
//
// # Form
//
// The contents of all files, one after the other in the order of their paths, are one stream. It is cut where its
// content says so (a gear hash), into pieces of 1 MiB or so: hundreds of small files share a piece, a large file has
// many, and what is put in, taken out or changed somewhere changes the pieces around it alone. The list has every file,
// folder and symbolic link with its mode, and the pieces in their order. It is JSON:
//
//	{"version":1,
//	 "entries":[{"path":"data","mode":493,"dir":true},{"path":"data/a.csv","mode":420,"size":12}],
//	 "pieces":[{"digest":"sha256-…","size":12}]}
//
// Of a single file the list has one entry, whose path is ".".
//
// A job refers to a pack by a URI, pack://sha256-DIGEST/NAME: the digest of the list's bytes, and what the folder or
// file was called, which is no part of its content. A Source hands out what lies under a digest, list or piece.
//
// Permission bits are kept; owners, times, and bits beyond permissions are not: the same content is the same pack
// wherever it lies. A link is kept as a link where it stays inside the folder.
package pack
