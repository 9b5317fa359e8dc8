package grant

import (
	"context"
	"iter"
)

// Objects returns the objects below a prefix, of all pages of Store.List. An error ends it.
func Objects(ctx context.Context, s Store, prefix string) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		for after := ""; ; {
			page, err := s.List(ctx, prefix, after)
			if err != nil {
				yield(Listed{}, err)
				return
			}
			for _, o := range page.Objects {
				if !yield(o, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}
