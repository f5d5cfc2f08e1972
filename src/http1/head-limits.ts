/** What a request head may cost before it is refused (RFC 9112 §3, RFC 6585 §5). */
export interface HeadLimits {
  /** Bytes of all field lines together, line ends not counted: 431 past it. */
  readonly headerBytes: number
  /** Number of field lines: 431 past it. */
  readonly headerFields: number
  /** Bytes of the request target: 414 past it. */
  readonly targetBytes: number
}
