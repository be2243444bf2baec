/**
 * # What an endpoint offers
 *
 * Handlers of the app, or servers that the option `server` makes. One provider decides it, when the options are known: they may come from
 * an async factory. Whatever differs for servers asks here.
 */
export abstract class Offer {
  abstract readonly serves: 'handlers' | 'servers';
}
