package story

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// A secret of a task of the story: its value is in the account, and the job has a reference to it.
const (
	secretName  = "REHEARSED"
	secretValue = "open-sesame-b1f7c9" //nolint:gosec // made up
)

// secretPath returns the parameter with the secret, below the path that the deployment may read.
func (s *Story) secretPath() string { return "/" + s.World.Stack.Name + "/secrets/rehearsed" }

// keepSecret stores the secret as its owner would.
func (s *Story) keepSecret(ctx context.Context) error {
	_, err := ssm.NewFromConfig(s.World.Config).PutParameter(ctx, &ssm.PutParameterInput{
		Name: aws.String(s.secretPath()), Value: aws.String(secretValue), Type: ssmtypes.ParameterTypeSecureString,
		Overwrite: aws.Bool(true),
	})
	return err
}

// hidden searches for the secret in every item of the table and in every file that machines and functions have written.
// It returns the numbers of items and files.
func (s *Story) hidden(ctx context.Context) (items, files int, err error) {
	pages := dynamodb.NewScanPaginator(dynamodb.NewFromConfig(s.World.Config),
		&dynamodb.ScanInput{TableName: &s.World.Stack.Name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return 0, 0, err
		}
		for _, item := range page.Items {
			items++
			for name, value := range item {
				if holds(bytesOf(value), secretValue) {
					return 0, 0, fmt.Errorf("the secret is in %s of the item %s, %s", name, bytesOf(item["pk"]),
						bytesOf(item["sk"]))
				}
			}
		}
	}
	for _, dir := range []string{"logs", "machines"} {
		err := filepath.WalkDir(filepath.Join(s.World.Dir, dir), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) { // deleted by a working machine
				return nil
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			raw, err := os.ReadFile(path) //nolint:gosec // in the rehearsal's own folder
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if files++; err == nil && holds(raw, secretValue) {
				err = fmt.Errorf("the secret is in the file %s", path)
			}
			return err
		})
		if err != nil {
			return 0, 0, err
		}
	}
	return items, files, nil
}

// bytesOf returns an attribute's value if it can contain text.
func bytesOf(v types.AttributeValue) []byte {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return []byte(v.Value)
	case *types.AttributeValueMemberB:
		return v.Value
	default:
		return nil
	}
}

// holds searches for a text in bytes, both as they are and decompressed: values are stored with gzip, events with flate
// after a marker byte.
func holds(raw []byte, text string) bool {
	if bytes.Contains(raw, []byte(text)) {
		return true
	}
	readers := []io.Reader{flate.NewReader(bytes.NewReader(raw[min(1, len(raw)):]))}
	if r, err := gzip.NewReader(bytes.NewReader(raw)); err == nil {
		readers = append(readers, r)
	}
	for _, r := range readers {
		var plain strings.Builder
		_, _ = io.Copy(&plain, io.LimitReader(r, 64<<20)) // the data before an error may contain it
		if strings.Contains(plain.String(), text) {
			return true
		}
	}
	return false
}
