package azgrant

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Lend implements grant.Lender with a shared access signature of the container, or of a directory if the prefix has
// one. Azure supports directory signatures only in accounts with a hierarchical namespace (Storage services REST
// API, "Create a user delegation SAS", field sdd); other accounts reject them.
func (s *Store) Lend(ctx context.Context, l grant.Loan) (grant.Credentials, error) {
	o, err := grant.ParsePrefixOf(scheme, l.Prefix)
	if err != nil {
		return grant.Credentials{}, err
	}
	rights := sas.ContainerPermissions{Read: true, List: true}
	if l.Write {
		rights.Add, rights.Create, rights.Write, rights.Delete = true, true, true, true
	}
	now := s.opts.Now()
	params, expires, err := s.keys.sign(ctx, now, sas.BlobSignatureValues{
		Protocol: s.protocol, ExpiryTime: now.Add(min(l.For, longest)).Truncate(time.Second).UTC(),
		Permissions: rights.String(), ContainerName: o.Bucket, Directory: strings.TrimSuffix(o.Key, "/"),
	}, request{})
	if err != nil {
		return grant.Credentials{}, fmt.Errorf("azgrant: lend for %s: %w", o, grant.Redact(err))
	}
	return grant.Credentials{Expires: expires, Endpoint: s.endpoint, Query: params.Encode()}, nil
}
