import type { Traffic, WorkerStatus } from '../../../src/observe/worker-status.js'

/** The traffic of a worker that served these numbers of requests in each second, and nothing else. */
export function traffic(endSecond: number, requests: readonly number[]): Traffic {
  const zeros = requests.map(() => 0)
  return {
    endSecond,
    requests: [...requests],
    denied: zeros,
    wouldDeny: zeros,
    failed: zeros,
    opened: zeros,
    bytesUp: zeros,
    bytesDown: zeros,
    tunnels: zeros,
  }
}

/** The status of a worker that has served nothing, except for the given parts. */
export function workerStatus(more: Partial<WorkerStatus> = {}): WorkerStatus {
  return {
    worker: 1,
    pid: undefined,
    startedMs: 0,
    configHash: 'abc',
    busy: 0,
    traffic: traffic(0, []),
    latencies: { dns: [], dial: [], firstByte: [] },
    tunnels: { open: 0, listed: [] },
    shares: [],
    denials: { dropped: 0, listed: [] },
    failures: { dropped: 0, listed: [] },
    upstreams: [],
    cache: undefined,
    ...more,
  }
}
