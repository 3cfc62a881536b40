"""Compares captioning systems on the same photos: does one score higher than another?"""
