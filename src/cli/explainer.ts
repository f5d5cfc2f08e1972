/** The policy and the resolver of a configuration, for commands that explain requests. */
import { type ExplainParts, type Explanation, explainRequest } from '../advice/explanation.js'
import type { Loaded } from '../config/load.js'
import { Lookups, type NameEnvironment } from '../dns/resolve.js'
import { NO_DESCRIPTOR_KEPT } from '../limits/descriptors.js'
import { createPolicy } from '../pipeline/create-policy.js'
import { NoProxy } from '../policy/no-proxy.js'

/** What an explainer needs from the process. */
export interface ExplainEnvironment extends NameEnvironment {
  /** The environment variables of the process. */
  readonly environment?: Readonly<Record<string, string | undefined>>
  /** Milliseconds, monotonic. */
  readonly now?: () => number
}

export interface Explainer {
  readonly explain: (request: Explanation['request'], client: Explanation['client']) => Promise<Explanation>
  readonly close: () => void
}

/** @param asksDns false for decisions by name, without any DNS query */
export function createExplainer(
  loaded: Pick<Loaded, 'config' | 'files'>,
  world: ExplainEnvironment,
  asksDns: boolean,
): Explainer {
  const { config } = loaded
  const now = world.now ?? (() => performance.now())
  const resolving = { system: { environment: world.environment ?? {} }, ...world }
  const names = asksDns
    ? new Lookups(config, resolving).names(config, { now, descriptors: NO_DESCRIPTOR_KEPT })
    : undefined
  const parts: ExplainParts = {
    config,
    policy: createPolicy(loaded),
    noProxy: config.parent && new NoProxy(config.parent.noProxy),
    resolver: names?.resolver,
    now,
  }
  return {
    explain: (request, client) => explainRequest(request, client, parts),
    close: () => names?.close(),
  }
}
