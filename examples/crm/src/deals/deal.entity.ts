import { Column, Entity, PrimaryColumn, PrimaryGeneratedColumn } from 'typeorm';

export const STAGES = ['open', 'won', 'lost'] as const;
export type Stage = (typeof STAGES)[number];

@Entity()
export class Deal {
  @PrimaryGeneratedColumn('identity') id!: number;
  @Column('text', { select: false }) tenant!: string;
  @Column('int') contact!: number;
  @Column('text') title!: string;
  @Column('text', { default: 'open' }) stage!: Stage;
  @Column('int') cents!: number;
  @Column('int', { default: 0 }) paid!: number;
}

/** A request is paid once: its id is a part of the key. */
@Entity()
export class Payment {
  @PrimaryColumn('text') tenant!: string;
  @PrimaryColumn('text') request!: string;
  @Column('int') deal!: number;
  @Column('int') cents!: number;
}
