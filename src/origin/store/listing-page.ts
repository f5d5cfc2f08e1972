/** One page of a listing, as JSON has it. */

/** Names stand as they do in a path: percent-encoded, so that each is a reference relative to the collection. */
export type ListingItem =
  /** A collection; its name ends in `/`. */
  | { readonly name: string }
  | {
      readonly name: string
      /** Bytes of content. */
      readonly size: number
      /** Content-Type, null when it has none. */
      readonly type: string | null
      readonly etag: string
      /** ISO 8601. */
      readonly modified: string
    }

export interface ListingPage {
  readonly path: string
  readonly items: readonly ListingItem[]
  /** The path and query of the next page, null on the last one. */
  readonly next: string | null
}
