/** One exchange on its way through the listener: its decision, what it was let in for, and who asks for names in it. */
import { clientAccount } from '../clients/account.js'
import type { Asker as ClientAsker, Client, Clients } from '../clients/identify.js'
import type { CancelSignal } from '../exchange.js'
import { type Stay, UNCOUNTED } from '../limits/shares.js'
import type { Asker } from '../upstream/resolve.js'
import type { ConnectionExchange } from './connection-exchange.js'
import type { Decision } from './decision.js'

export class Visit implements Asker {
  readonly exchange: ConnectionExchange
  readonly decision: Decision
  /** What it was let in for, by the limits. */
  stay: Stay = UNCOUNTED
  /** Set once it is known. */
  client: Client | undefined
  readonly #clients: () => Clients

  constructor(exchange: ConnectionExchange, decision: Decision, clients: () => Clients) {
    this.exchange = exchange
    this.decision = decision
    this.#clients = clients
  }

  get signal(): CancelSignal {
    return this.exchange.signal
  }

  /** What limits for each client are counted under: only some requests meet one. */
  get account(): string {
    const { exchange, client } = this
    const source = this.#clients().sourceOf(exchange.clientAddress)
    return client === undefined ? source : clientAccount(client, clientAskerOf(exchange), source)
  }
}

/** What a client is identified by. */
export function clientAskerOf({
  clientAddress,
  clientCertificate,
  head,
  signal,
}: ConnectionExchange): ClientAsker {
  return { address: clientAddress, fields: head.fields, certificate: clientCertificate, signal }
}
