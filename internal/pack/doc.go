// Package pack turns a folder or a file into something that any machine can fetch: pieces that are identified by
// their content, and a list, also identified by its content, of the files that they form. So a pack has one identity,
// pieces that already exist are not sent again, and later changes of the folder do not affect the pack.
//
// # Form
//
// The contents of all files, concatenated in the order of their paths, are one stream. It is cut into pieces of about
// 1 MiB at positions that depend on its content (a gear hash). Hundreds of small files share a piece, a large file
// has many, and inserting, removing or changing data changes only the pieces around it. The list contains every file,
// folder and symbolic link with its mode, and the pieces in order. It is JSON:
//
//	{"version":1,
//	 "entries":[{"path":"data","mode":493,"dir":true},{"path":"data/a.csv","mode":420,"size":12}],
//	 "pieces":[{"digest":"sha256-…","size":12}]}
//
// The list of a single file has one entry, whose path is ".".
//
// A job refers to a pack by a URI, pack://sha256-DIGEST/NAME: the digest of the list's bytes, and the name of the
// folder or file, which is not part of its content. A Source returns the content for a digest, whether it is a list
// or a piece.
//
// Packs contain permission bits, but no owners, times or other mode bits: the same content gives the same pack
// anywhere. Links that stay inside the folder are stored as links.
package pack
