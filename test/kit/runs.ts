/** How often properties are tried: what is run at every change takes a tenth of what CI takes. */

const THOROUGH = process.env['CI'] !== undefined

/**
 * @param all how many runs a property is given with CI in the environment
 * @param least how many it needs: one that counts what it met has to meet some, whatever is drawn
 * @returns a tenth of all, or as many as it needs
 */
export function runs(all: number, least = 10): number {
  return THOROUGH ? all : Math.min(all, Math.max(least, Math.ceil(all / 10)))
}
