/** What the admin listener may know of the rest. */
export interface Control {
  /** Whether new requests are welcome: false once the proxy is draining. */
  ready(): boolean
}
