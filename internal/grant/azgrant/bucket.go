package azgrant

import (
	"context"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// MakeBucket implements grant.Bucketer by creating a container in the account, with the store's own rights: no SAS of a
// blob or container can create one (Blob service REST API, "Create Container").
func (s *Store) MakeBucket(ctx context.Context, bucket string) error {
	o, err := grant.ParsePrefixOf(scheme, bucket)
	if err != nil {
		return err
	}
	client, err := s.keys.account(s.endpoint)
	if err != nil {
		return err
	}
	_, err = client.CreateContainer(ctx, o.Bucket, nil)
	switch {
	case bloberror.HasCode(err, bloberror.ContainerAlreadyExists):
		return nil // names are local to the account, so it is ours
	case bloberror.HasCode(err, bloberror.AuthorizationFailure, bloberror.InsufficientAccountPermissions,
		bloberror.InvalidResourceName, bloberror.OutOfRangeInput):
		return fmt.Errorf("azgrant: create bucket %s: %w: %w", o, grant.ErrNoBucket, grant.Redact(err))
	case err != nil:
		return fmt.Errorf("azgrant: create bucket %s: %w", o, grant.Redact(err))
	}
	return nil
}

// RemoveBucket implements grant.Bucketer: Azure removes a container with all its blobs.
func (s *Store) RemoveBucket(ctx context.Context, bucket string) error {
	o, err := grant.ParsePrefixOf(scheme, bucket)
	if err != nil {
		return err
	}
	client, err := s.keys.account(s.endpoint)
	if err != nil {
		return err
	}
	_, err = client.DeleteContainer(ctx, o.Bucket, nil)
	if err == nil || bloberror.HasCode(err, bloberror.ContainerNotFound, bloberror.ContainerBeingDeleted,
		bloberror.AuthorizationFailure) {
		return nil
	}
	return fmt.Errorf("azgrant: remove %s: %w", o, grant.Redact(err))
}
