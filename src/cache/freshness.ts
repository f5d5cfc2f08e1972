/** Placeholder until the decisions are there: what a store keeps beside the head. */
import type { StoredHead } from './stored-response.js'

export class StoredResponse {
  readonly head: StoredHead

  constructor(head: StoredHead) {
    this.head = head
  }
}
