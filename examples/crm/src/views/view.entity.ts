import { Column, Entity, PrimaryColumn } from 'typeorm';
import type { Stage } from '../deals/deal.entity.js';

/** A search that a tenant has saved. */
@Entity()
export class View {
  @PrimaryColumn('text') tenant!: string;
  @PrimaryColumn('text') name!: string;
  @Column('text') description!: string;
  @Column('text') stage!: Stage;
  /** Deals of this amount and more. */
  @Column('int') cents!: number;
}
