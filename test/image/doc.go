// Package image asks BuildKit's own frontend, imported as a library, what it
// makes of the Dockerfile: what is fetched, what runs for which platform, and
// what the image says of itself. For that nothing is fetched or built, so it
// takes no daemon, no registry and no root. Where there are buildah and root,
// the image is built as well, and its program runs. A module of its own, so that
// the product stays slim.
package image
